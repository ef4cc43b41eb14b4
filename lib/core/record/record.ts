import type { Readable } from 'node:stream';

/**
 * The stored state of one record key. Times are in milliseconds of the **store's** clock. See `record-transitions.ts`.
 */
export type StoredRecord = InProgressRecord | FinishedRecord | ReleasedRecord;

interface RecordBase {
  /** Owner token of the attempt that last wrote the record. */
  readonly token: OwnerToken;
  /** Fencing token of that attempt. Only grows per record key. */
  readonly fence: number;
  readonly fingerprint: Fingerprint;
  /** Number of attempts, including the current one. */
  readonly attempt: number;
  /** How many of them took over an expired lease. */
  readonly takeovers: number;
  readonly expiresAt: number;
  /** See {@link Begin.note}. A record without one has no such member. */
  readonly note?: string;
}

/** An attempt holds the lease, or held it until it expired. */
export interface InProgressRecord extends RecordBase {
  readonly state: 'in_progress';
  readonly leaseUntil: number;
  /** Length of the lease. A lease that ends further ahead shows that the clock stepped back. */
  readonly leaseMs: number;
  /** The hard deadline: no extension goes beyond it. */
  readonly deadline: number;
  /** See {@link Begin.origin}. */
  readonly origin: string | undefined;
}

/** The outcome of a success (`completed`) or of a kept failure (`failed`). It never changes. */
export interface FinishedRecord extends RecordBase {
  readonly state: FinishedState;
  readonly outcome: Outcome;
}

/** A tombstone: the operation can run again, and late commands of the old attempt are recognised. */
export interface ReleasedRecord extends RecordBase {
  readonly state: 'released';
}

/** `completed`: a success. `failed`: a kept failure. Both are replayed. */
export type FinishedState = 'completed' | 'failed';

/** The state of a record: in progress, finished (`completed`, `failed`) or `released`. */
export type RecordState = StoredRecord['state'];

export const RECORD_STATES = [
  'in_progress',
  'completed',
  'failed',
  'released',
] as const satisfies readonly RecordState[];

/** What the operation produced, as stored. All transports share this form; stores never parse it. */
export interface Outcome {
  /** One short line (no `\n`), in the transport's format. */
  readonly header: string;
  /** Returned byte for byte. May be empty. */
  readonly body: Uint8Array;
}

/** A body that is read from a blob store while it is sent, as it is too large for memory. */
export interface LargeBody {
  readonly bytes: number;
  /**
   * Opened; destroyed if nobody reads it soon. It fails before its last bytes if they are not all the bytes of the outcome:
   * who has told their number first then never has passed on a whole answer that is wrong.
   */
  readonly stream: Readable;
}

/** An outcome as a transport gets it. */
export interface ReadableOutcome extends Outcome {
  /** In place of the body, which is empty then. */
  readonly large?: LargeBody | undefined;
}

/** The operation is done, its outcome was not kept. No transport has such a header: each says that it was not kept. */
export const NOT_KEPT: Outcome = Object.freeze({ header: '-', body: Buffer.alloc(0) });

/** The size of an outcome as it is stored. */
export function bytesOf({ header, body }: Outcome): number {
  return Buffer.byteLength(header) + body.length;
}

/** The key of a record in the store: base64url SHA-256 of service, operation, scope and key. See `record-key.ts`. */
export type RecordKey = string & { readonly __recordKey: unique symbol };

/** 128 random bits in base64url, new for each attempt and the same in all its commands. */
export type OwnerToken = string & { readonly __ownerToken: unique symbol };

/** Digest of the request's content in base64url, or `-` if content is not compared. See `fingerprint.ts`. */
export type Fingerprint = string & { readonly __fingerprint: unique symbol };

/** An attempt's time-limited right to run, which its later commands present. */
export interface Lease {
  readonly recordKey: RecordKey;
  readonly token: OwnerToken;
  /** The fencing token; {@link UNKNOWN_FENCE} if the reply of begin never came. */
  readonly fence: number;
}

/** The fencing token of an attempt whose begin got no reply: stores then compare only the owner token. */
export const UNKNOWN_FENCE = 0;
