import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import {
  blobName,
  type BlobName,
  type BlobStore,
  type PutHints,
} from '../../../core/payload/blob-store.js';
import type { OwnerToken, RecordKey } from '../../../core/record/record.js';

/** A blob store for one case, open, and empty or with foreign blobs only. */
export interface BlobStoreHarness {
  readonly store: BlobStore;
  /** Called after the case, passed or failed. */
  dispose?(): void | Promise<void>;
}

/** One statement about the behaviour of a blob store, and its proof. */
export interface BlobStoreConformanceCase {
  readonly operation: 'put' | 'get' | 'delete' | 'open';
  readonly name: string;
  /** Whether it stores 100 MiB. */
  readonly isLarge: boolean;
  /** @throws `AssertionError` of node:assert if the store does not conform. */
  run(harness: BlobStoreHarness): Promise<void>;
}

export const KIB = 1024;
export const MIB = 1024 * KIB;

const HOUR_MS = 3_600_000;
const CHUNK_BYTES = 64 * KIB;

/** Drives one blob of the store under test. */
export class TestBlob {
  readonly name: BlobName;

  constructor(
    readonly store: BlobStore,
    retentionMs = HOUR_MS,
  ) {
    this.name = blobName(
      retentionMs,
      randomBytes(32).toString('base64url') as RecordKey,
      randomBytes(16).toString('base64url') as OwnerToken,
    );
  }

  neighbour(retentionMs?: number): TestBlob {
    return new TestBlob(this.store, retentionMs);
  }

  put(source: Uint8Array | Readable, hints: Partial<PutHints> = {}): Promise<void> {
    const isStream = source instanceof Readable;
    return this.store.put(this.name, isStream ? source : sourceOf(source), {
      ...(!isStream && { bytes: source.length }),
      expiresAt: new Date(Date.now() + HOUR_MS),
      signal: new AbortController().signal,
      ...hints,
    });
  }

  open(
    offset?: number,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<Readable | undefined> {
    return this.store.get(this.name, { offset, signal });
  }

  /** A stream of a blob that is there. */
  async opened(offset?: number, signal?: AbortSignal): Promise<Readable> {
    const stream = await this.open(offset, signal);
    assert.ok(stream, 'there is no blob');
    return stream;
  }

  async holds(bytes: Uint8Array, offset?: number): Promise<void> {
    const stored = await buffer(await this.opened(offset));
    assert.equal(stored.length, bytes.length, 'number of bytes');
    assert.ok(stored.equals(bytes), 'the bytes differ');
  }

  async isAbsent(): Promise<void> {
    const stream = await this.open();
    stream?.destroy();
    assert.equal(stream, undefined, 'there is a blob');
  }
}

/** Bytes of which no two parts are equal. */
export function contentOf(length: number): Buffer {
  return randomBytes(length);
}

/** A stream of these bytes, piece by piece; then it waits for ever, or fails. */
export function sourceOf(
  bytes: Uint8Array,
  then: 'end' | 'wait' | Error | 'close' = 'end',
): Readable {
  let at = 0;
  return new Readable({
    read() {
      if (at < bytes.length) {
        this.push(bytes.subarray(at, (at += CHUNK_BYTES)));
      } else if (then === 'end') this.push(null);
      else if (then === 'close') this.destroy();
      else if (then !== 'wait') this.destroy(then);
    },
  });
}

type Proof = (blob: TestBlob) => Promise<void>;

export interface BlobCaseWriter {
  (name: string, proof: Proof): void;
  /** Stores 100 MiB. */
  large(name: string, proof: Proof): void;
}

export function blobCasesOf(
  operation: BlobStoreConformanceCase['operation'],
  write: (it: BlobCaseWriter) => void,
): readonly BlobStoreConformanceCase[] {
  const cases: BlobStoreConformanceCase[] = [];
  const add = (isLarge: boolean) => (name: string, proof: Proof) => {
    const run = ({ store }: BlobStoreHarness) => proof(new TestBlob(store));
    cases.push({ operation, name, isLarge, run });
  };
  write(Object.assign(add(false), { large: add(true) }));
  return cases;
}
