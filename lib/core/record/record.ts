/**
 * The stored state of one record key, as a store keeps it.
 *
 * A record is in one of three shapes; a field exists only in the shape that has it. Instants are
 * milliseconds of the **store's** clock. See `record-transitions.ts` for what leads from one to the next.
 */
export type StoredRecord = InProgressRecord | FinishedRecord | ReleasedRecord;

interface RecordBase {
  /** Owner token of the attempt that wrote the record last. */
  readonly token: OwnerToken;
  /** Fencing token of that attempt: only grows per record key. */
  readonly fence: number;
  /** Fingerprint of the request that the record belongs to. */
  readonly fingerprint: Fingerprint;
  /** How many attempts there were, the present one included. */
  readonly attempt: number;
  /** How many of them took over from an attempt whose lease ran out. */
  readonly takeovers: number;
  /** When the record ceases to exist. */
  readonly expiresAt: number;
}

/** An attempt holds the lease, or held it and never came back. */
export interface InProgressRecord extends RecordBase {
  readonly state: 'in_progress';
  /** When the right to run ends, unless it is extended. */
  readonly leaseUntil: number;
  /** The lease's own length: a lease that lies further ahead means that the clock stepped back. */
  readonly leaseMs: number;
  /** The hard deadline: no extension reaches beyond it. */
  readonly deadline: number;
  /** See {@link Begin.origin}. */
  readonly origin: string | undefined;
}

/** The outcome of a success (`completed`) or of a failure that is kept (`failed`). It never changes. */
export interface FinishedRecord extends RecordBase {
  readonly state: FinishedState;
  readonly outcome: Outcome;
}

/** A tombstone: the operation may run again at once, late commands of the old attempt are still recognised. */
export interface ReleasedRecord extends RecordBase {
  readonly state: 'released';
}

/** `completed`: a success. `failed`: a failure that is kept. Both are replayed alike. */
export type FinishedState = 'completed' | 'failed';

/** Every state that a live record can be in. */
export type RecordState = StoredRecord['state'];

/**
 * What the operation produced, as it is stored: the same for every transport, never parsed by a store.
 */
export interface Outcome {
  /** A short text of one line (no `\n`), in the transport's own format. */
  readonly header: string;
  /** The bytes, returned exactly as they were given; may be empty. */
  readonly body: Uint8Array;
}

/** What a store looks up: base64url SHA-256 over scope, operation and key. See `record-key.ts`. */
export type RecordKey = string & { readonly __recordKey: unique symbol };

/** 128 random bits in base64url, new for each attempt, kept over all resends of that attempt. */
export type OwnerToken = string & { readonly __ownerToken: unique symbol };

/** Digest of the request's content in base64url, or `-` where nothing is compared. See `fingerprint.ts`. */
export type Fingerprint = string & { readonly __fingerprint: unique symbol };

/** The time-limited right of one attempt to run; what its later commands are compared with. */
export interface Lease {
  readonly recordKey: RecordKey;
  readonly token: OwnerToken;
  /** The fencing token, or {@link UNKNOWN_FENCE} where the reply of begin never came. */
  readonly fence: number;
}

/** Stands for the fencing token of an attempt whose begin was never answered: only the owner token is compared. */
export const UNKNOWN_FENCE = 0;
