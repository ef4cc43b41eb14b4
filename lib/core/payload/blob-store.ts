import type { Readable } from 'node:stream';
import type { OwnerToken, RecordKey } from '../record/record.js';
import type { StoreWarning } from '../record/store-warning.js';
import type { Finding } from '../store/diagnosis/finding.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';
import { diagnoseBlobs } from './diagnose-blobs.js';

/** Where a blob is: `{retention class}/{record key}/{owner token}`, see {@link blobName}. At most 128 ASCII characters. */
export type BlobName = string & { readonly __blobName: unique symbol };

/**
 * The retention classes, in days. A bucket's lifecycle rules count days per prefix, so that a class leads each name.
 */
export const BLOB_CLASSES = [1, 2, 7, 30, 365] as const;

const DAY_MS = 86_400_000;

/**
 * The name of an attempt's blob. The owner token, which is random and new for each attempt, keeps attempts apart and the
 * name unguessable.
 * @param retentionMs - milliseconds that the outcome is kept, rounded up to a class: `d1`, `d2`, `d7`, `d30` or `d365`.
 */
export function blobName(retentionMs: number, recordKey: RecordKey, token: OwnerToken): BlobName {
  const days = BLOB_CLASSES.find((each) => retentionMs <= each * DAY_MS) ?? 365;
  return `d${String(days)}/${recordKey}/${token}` as BlobName;
}

/** What a store may know of a blob before it has its bytes. */
export interface PutHints {
  /** Length of the source. A source of another length is rejected. @defaultValue not known */
  readonly bytes?: number | undefined;
  /** From then on the store may delete the blob, and must do so within some days. */
  readonly expiresAt: Date;
  /** Ends the put: it rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

/** What of a blob is read. */
export interface GetOptions {
  /** The first byte that is read. At the end of the blob, or behind it, the stream is empty. @defaultValue 0 */
  readonly offset?: number | undefined;
  /** Ends the read: get rejects, or its stream fails. */
  readonly signal: AbortSignal;
}

/**
 * The port to a place for large outcomes, such as an object store: a record then has a pointer to the blob. A blob is
 * written once, by one attempt, and only read after that. Nothing lists or refers to blobs: a store deletes them by age.
 *
 * Test a custom store with {@link describeBlobStoreConformance} in `nestjs-idempotency/testing/store`.
 */
export abstract class BlobStore {
  /** Stands in pointers, by which a process recognises blobs of another store. 1 to 16 characters of `a-z0-9-`. */
  abstract readonly id: string;

  /**
   * Called when an application starts. Writes, reads and deletes a probe. A closed store can be opened again.
   * @returns warnings about the server; empty when all is well. An unreachable server is a warning, since it may be back
   * before the first request.
   * @throws {@link StoreConfigurationError} if the store can never work with its configuration.
   */
  open(): Promise<readonly StoreWarning[]> {
    return Promise.resolve([]);
  }

  /**
   * Stores the bytes of the source, with back pressure. Resolves when they are durable. A put that rejects leaves nothing
   * readable, unless the store had all bytes: then the whole blob may be there. The same name again, with the same bytes,
   * replaces the blob or keeps it.
   * @throws the source's own error, or the reason of the signal. Both destroy the source.
   * @throws {@link BlobUnavailableError} if the store did not take the bytes, such as for a full disk.
   */
  abstract put(name: BlobName, source: Readable, hints: PutHints): Promise<void>;

  /**
   * Reads with back pressure. Destroying the stream frees what it holds. A stream that ends has delivered all bytes; if
   * the store fails in between, it is destroyed with an error.
   * @returns `undefined` if there is no such blob, or no longer.
   * @throws {@link BlobUnavailableError} if that is not known.
   */
  abstract get(name: BlobName, options: GetOptions): Promise<Readable | undefined>;

  /**
   * Deletes the blob. An absent one is fine.
   * @throws {@link BlobUnavailableError} if the store did not confirm it.
   */
  abstract delete(name: BlobName): Promise<void>;

  /**
   * The same store, whose puts and deletions belong to an open transaction of the application in its database. Absent if
   * the store has no transactions.
   */
  inTransaction?(transaction: OpenTransaction): BlobStore;

  /**
   * Checks the store from where it runs, as `npx nestjs-idempotency doctor --blobs` does: one finding after the other. It does
   * what {@link open} does, and closes what that has opened. What the store rejects is a finding.
   * @throws {@link IdempotencyOptionsError} when an option is invalid, or a package is not installed.
   */
  diagnose(): AsyncIterable<Finding> {
    return diagnoseBlobs(this);
  }

  /** Called when an application ends. Releases what the store opened itself, and nothing else. */
  abstract close(): Promise<void>;
}

/**
 * The blob store did not answer, or not with what was asked of it: whether a blob is there is not known. It can be tried
 * again. Its `cause` is the error of the client or the system, if any.
 */
export class BlobUnavailableError extends Error {
  override readonly name = 'BlobUnavailableError';
  readonly code = 'idempotency_blob_unavailable';
}
