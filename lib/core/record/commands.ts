import type {
  FinishedState,
  Fingerprint,
  Outcome,
  OwnerToken,
  RecordKey,
  RecordState,
} from './record.js';

/** What each command to a store has. */
export interface TimedCommand {
  /** Milliseconds that the command may take, including resends. */
  readonly timeoutMs: number;
}

/** The command that acquires the right to run the operation, for one attempt. */
export interface Begin extends TimedCommand {
  readonly recordKey: RecordKey;
  readonly token: OwnerToken;
  readonly fingerprint: Fingerprint;
  /** Milliseconds until the lease expires unless it is extended. */
  readonly leaseMs: number;
  /** Milliseconds to the hard deadline, which no extension moves: a hung attempt then loses its key. */
  readonly maxExecutionMs: number;
  /** Milliseconds that a record in progress is kept from now: the retention plus {@link maxExecutionMs}. */
  readonly recordRetentionMs: number;
  /** The latest time, on the store's clock in milliseconds, to acquire the record; 0 for no limit. */
  readonly notAfter: number;
  /** On another attempt's expired lease: take over, or reply `abandoned`. */
  readonly onExpiredLease: 'takeover' | 'deny';
  /**
   * Operation, scope and key, for the reconciler. Opaque, without white space; inspect returns it while in progress.
   */
  readonly origin?: string | undefined;
  /**
   * Kept with the record over takeover, completion and release, for example the trace of the execution: 1–240 printable
   * ASCII characters without white space. A takeover without a note keeps the earlier one. Opaque, but for its last
   * character: after one that ends in `<`, the store writes what it replaces, in the same step. That is the instant at
   * which the earlier attempt began, in milliseconds; `i` if its lease has expired, `r` if it was released; of its note
   * the part before the first `;`, and the part from the first `<`, which are attempts before that. The whole is cut to
   * 240 characters.
   * @defaultValue no note
   */
  readonly note?: string | undefined;
}

/** The command that extends the lease of a running attempt. */
export interface Extend extends TimedCommand {
  readonly leaseMs: number;
  /** As in {@link Begin.recordRetentionMs}. */
  readonly recordRetentionMs: number;
}

/** The command that stores the outcome of an attempt. */
export interface Complete extends TimedCommand {
  readonly state: FinishedState;
  readonly outcome: Outcome;
  /** Milliseconds that the outcome can be replayed from now. */
  readonly retentionMs: number;
  /**
   * Fingerprint of the outcome's request. Another attempt's outcome is returned only if its record has the same one.
   * Written with the outcome if the record is gone or was released by another attempt.
   */
  readonly fingerprint: Fingerprint;
  /**
   * If the record is gone, restore it with a success, or only report. A restored failure could hide another's effect.
   */
  readonly whenGone: 'restore' | 'report';
  /**
   * Written in front of the record's note, whose end is cut to 240 characters: `;` and `<` excepted, as in
   * {@link Begin.note}. Only if the record was this attempt's, and in progress.
   * @defaultValue the record's note stays
   */
  readonly note?: string | undefined;
  /**
   * Whether to notify watchers of the record.
   * @defaultValue false
   */
  readonly notify?: boolean | undefined;
}

/** The command that lets the operation run again. */
export interface Release extends TimedCommand {
  /** Milliseconds that the tombstone of the released record is kept. */
  readonly tombstoneMs: number;
  /** As in {@link Complete.note}. */
  readonly note?: string | undefined;
  /** As in {@link Complete.notify}. */
  readonly notify?: boolean | undefined;
}

/** The command that reads a record. */
export type Inspect = TimedCommand;

/** The command that lists a page of abandoned records. `timeoutMs` applies to the page. */
export interface Abandoned extends TimedCommand {
  /** Minimum milliseconds since the lease expired, by the store's clock. */
  readonly overMs: number;
  /** Maximum records in a page; may be exceeded slightly if the database cannot stop in between. */
  readonly limit: number;
  /** {@link AbandonedPage.cursor} of the previous page; omitted for the first. */
  readonly cursor?: string | undefined;
}

/** A page of abandoned records. */
export interface AbandonedPage {
  /** May be empty even if more pages follow. */
  readonly records: readonly AbandonedRecord[];
  /** Opaque. Requests the next page; omitted on the last one. */
  readonly cursor?: string;
}

/** A record in progress whose lease expired: what a caller needs to take it over. */
export interface AbandonedRecord {
  readonly recordKey: RecordKey;
  readonly fingerprint: Fingerprint;
  /** See {@link Begin.origin}. */
  readonly origin: string;
}

/** The command that lists a page of records. `timeoutMs` applies to the page. */
export interface List extends TimedCommand {
  /** Only records whose key begins so, such as those of a scope by its tag. @defaultValue all */
  readonly keyPrefix?: string | undefined;
  /** @defaultValue all */
  readonly states?: readonly RecordState[] | undefined;
  /** Only records in progress whose lease is running, or is over. @defaultValue records in any state */
  readonly lease?: 'running' | 'over' | undefined;
  /** Minimum milliseconds since the latest attempt began, by the store's clock. @defaultValue any age */
  readonly minAgeMs?: number | undefined;
  /** Only records whose note contains one of these texts. @defaultValue all */
  readonly notes?: readonly string[] | undefined;
  /** Maximum records in a page; may be exceeded slightly if the database cannot stop in between. */
  readonly limit: number;
  /** Maximum records to look at for a page, whether they are listed or not; may be exceeded likewise. */
  readonly maxScanned: number;
  /** {@link RecordPage.cursor} of the previous page; omitted for the first. */
  readonly cursor?: string | undefined;
}

/** A page of records. */
export interface RecordPage {
  /** May be empty even if more pages follow. */
  readonly records: readonly ListedRecord[];
  /** How many records were looked at; an estimate if the database does not tell. */
  readonly scanned: number;
  /** Opaque. Requests the next page; omitted on the last one. */
  readonly cursor?: string;
}

/** A record as list returns it, without its outcome. */
export interface ListedRecord extends Omit<IdempotencyRecord, 'outcome'> {
  readonly recordKey: RecordKey;
}

/**
 * The command by which an operator, and not an attempt, changes a record that he has looked at. It is judged at the moment of
 * the write: nothing happens unless the record is still the one that he saw.
 */
export interface Amend extends TimedCommand {
  readonly recordKey: RecordKey;
  /** New for each change, the same in resends, by which a copy of the command is recognised. */
  readonly token: OwnerToken;
  /** What the operator saw. */
  readonly expected: { readonly state: RecordState; readonly fence: number };
  readonly change: AmendedRecord;
  /** Whether to change a record in progress though its lease is running. The live attempt then loses it. */
  readonly evenIfRunning: boolean;
  /**
   * The earliest time, on the store's clock in milliseconds; 0 for no limit. Late copies of the owner's commands may otherwise
   * undo the change of an outcome that has just been stored.
   */
  readonly notBefore: number;
  /** As in {@link Begin.note}: replaces that of the record. @defaultValue the record's note stays */
  readonly note?: string | undefined;
  /** As in {@link Complete.notify}. */
  readonly notify?: boolean | undefined;
}

/** What an operator makes of a record. */
export type AmendedRecord =
  /**
   * From any state: the operation can run again. An outcome is dropped. The record is then the operator's, with a higher fence:
   * a late success of the attempt before is still stored, and its late failure is not.
   */
  | {
      readonly kind: 'release';
      /** Milliseconds that the tombstone is kept; 0: the record is gone at once. */
      readonly tombstoneMs: number;
      /** Whether the attempt before may have had an effect: the next attempt then counts as a takeover. */
      readonly isTakeover: boolean;
    }
  /** From in progress or released: this is the outcome. The record is then the operator's, with a higher fence. */
  | {
      readonly kind: 'settle';
      readonly state: FinishedState;
      readonly outcome: Outcome;
      /** As in {@link Complete.retentionMs}. */
      readonly retentionMs: number;
    }
  /** Of a finished record, whose state, owner and fence stay: another outcome, another retention from now, or both. */
  | {
      readonly kind: 'keep';
      /** @defaultValue the record's own */
      readonly outcome?: Outcome | undefined;
      /** @defaultValue it expires when it would have */
      readonly retentionMs?: number | undefined;
    };

/** The command that watches a record. `timeoutMs` applies to the start of watching. */
export type Watch = TimedCommand;

/** Stops watching. */
export type StopWatching = () => void;

/** The counters of an attempt that may run. */
export interface Acquisition {
  readonly fence: number;
  /** The store's clock in milliseconds. */
  readonly now: number;
  /** 1 for the first attempt of the record. */
  readonly attempt: number;
  readonly takeovers: number;
}

/** Whether the attempt may run; otherwise what the record says instead. */
export type BeginReply =
  | ({ readonly kind: 'acquired' } & Acquisition)
  /** An earlier copy of this command acquired the record. */
  | ({ readonly kind: 'owned' } & Acquisition)
  /** The attempt may run. An earlier attempt's lease expired; its outcome is unknown. `note` is the earlier one. */
  | ({ readonly kind: 'takeover'; readonly note?: string } & Acquisition)
  | { readonly kind: 'in_progress'; readonly leaseLeftMs: number; readonly note?: string }
  /** The lease of another attempt expired, and `onExpiredLease` is `'deny'`. */
  | {
      readonly kind: 'abandoned';
      readonly fence: number;
      readonly overMs: number;
      readonly attempt: number;
      readonly takeovers: number;
      readonly note?: string;
    }
  | {
      readonly kind: FinishedState;
      readonly outcome: Outcome;
      readonly retentionLeftMs: number;
      readonly note?: string;
    }
  /** The record belongs to a request with other content. */
  | { readonly kind: 'mismatch' }
  /** A delayed copy of a begin whose attempt has been released. */
  | { readonly kind: 'stale_begin' }
  /** The command arrived after its `notAfter`. */
  | { readonly kind: 'late'; readonly now: number };

/** Whether the lease was extended; otherwise why the attempt lost it. */
export interface ExtendReply {
  readonly kind:
    | 'ok'
    /** The lease had expired, but was not taken over. */
    | 'revived'
    | 'max_execution'
    /** Another attempt has the record. */
    | 'lost'
    /** There is no record. */
    | 'gone'
    /** This attempt has finished or released the record. */
    | 'not_in_progress';
}

/** Whether the outcome was stored; otherwise what stands in its place. */
export type CompleteReply =
  /** `ok_late`: stored although the lease had expired, or after another attempt released the record. */
  | { readonly kind: 'ok' | 'ok_late' }
  /** An earlier copy of this command stored it. */
  | { readonly kind: 'already' }
  /** Another attempt's outcome of the same content is stored. It is the outcome of both. */
  | { readonly kind: 'superseded'; readonly state: FinishedState; readonly outcome: Outcome }
  /** Another attempt has, or has released, the record; or has finished it with an outcome of other content. */
  | { readonly kind: 'lost'; readonly state: RecordState; readonly fence: number }
  /** There was no record. `restored`: it was written with the outcome. `gone`: nothing was written. */
  | { readonly kind: 'restored' | 'gone' };

/** Whether the record was released; otherwise why not. */
export interface ReleaseReply {
  readonly kind: 'ok' | 'already' | 'not_in_progress' | 'lost' | 'gone';
}

/** Whether the record was changed; otherwise why not, and nothing was. */
export type AmendReply =
  /** `fence`: the record's from now on. */
  | { readonly kind: 'ok'; readonly fence: number }
  /** An earlier copy of this command did it. */
  | { readonly kind: 'already' }
  /** The record is not what the operator saw. What it is now; `absent` has the fence 0. */
  | { readonly kind: 'changed'; readonly state: RecordState | 'absent'; readonly fence: number }
  /** A record in this state cannot be changed so. */
  | { readonly kind: 'not_applicable' }
  /** The lease is running; 0 of it is left where a transaction of the attempt holds the record. */
  | { readonly kind: 'running'; readonly leaseLeftMs: number }
  /** It is before {@link Amend.notBefore}. */
  | { readonly kind: 'too_fresh'; readonly leftMs: number };

/** A record as inspect returns it, with durations from now instead of times of the store's clock. */
export interface IdempotencyRecord {
  readonly state: RecordState;
  readonly fence: number;
  readonly attempt: number;
  readonly takeovers: number;
  readonly fingerprint: Fingerprint;
  /** Milliseconds since the latest attempt began. */
  readonly ageMs: number;
  /** Milliseconds until the record expires. */
  readonly retentionLeftMs: number;
  /** Milliseconds, negative once the lease has expired. Only while in progress. */
  readonly leaseLeftMs?: number;
  /** Only while in progress, and only if begin set it. */
  readonly origin?: string;
  /** Only if a begin set it. See {@link Begin.note}. */
  readonly note?: string;
  /** Only once finished. */
  readonly outcome?: Outcome;
}
