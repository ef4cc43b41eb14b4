import type {
  FinishedState,
  Fingerprint,
  Lease,
  Outcome,
  OwnerToken,
  RecordKey,
  RecordState,
} from '../record/record.js';
import type { TransactionalRecords } from './transactional-records.js';

/**
 * The port between the protocol and a database, and the injection token of the store in use.
 *
 * Each method is one atomic step on one record, judged by the store's own clock. A reply is a value,
 * discriminated by `kind`; an exception means that the store gave no reply:
 *
 * - {@link StoreUnavailableError}: the step did not happen.
 * - {@link StoreOutcomeUnknownError}: it may have happened, or may still happen.
 * - {@link StoreReplyMismatchedError}: the same, because the reply in its place was another command's.
 * - {@link StoreConfigurationError}: it can never happen until somebody mends the set-up.
 *
 * A store sends a command again by itself, with the same arguments, for as long as its `timeoutMs`
 * lasts: every step is idempotent for its owner. An own store proves itself with the conformance kit in
 * `nestjs-idempotency/testing/store`.
 */
export abstract class IdempotencyStore {
  /**
   * Called when an application starts, before its first command. Each open is followed by one {@link close} of the same
   * observer, unless it rejects: then it has taken back what it did. Openings may nest, for one process may run several
   * applications on one store, and repeat: a store that was closed opens again.
   *
   * @param observer - hears of the store's events that no command's reply reports, until it closes.
   * @returns what an operator should know about the server's set-up; empty when all is well. A server
   * that cannot be reached is a warning, not an error: it may be back before the first request.
   * @throws {@link StoreConfigurationError} when the store can never work as it is set up.
   */
  open(_observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    return Promise.resolve([]);
  }

  /** Asks for the right to run the operation. */
  abstract begin(command: Begin): Promise<BeginReply>;

  /** Prolongs the lease of a running attempt. */
  abstract extend(lease: Lease, command: Extend): Promise<ExtendReply>;

  /** Stores the outcome, once and for all. */
  abstract complete(lease: Lease, command: Complete): Promise<CompleteReply>;

  /** Lets the operation run again at once; never deletes an outcome. */
  abstract release(lease: Lease, command: Release): Promise<ReleaseReply>;

  /** Reads the record, from the primary, without changing it; `undefined` when there is none. */
  abstract inspect(recordKey: RecordKey, command: Inspect): Promise<IdempotencyRecord | undefined>;

  /**
   * Tells when the record may have been finished or released, for duplicates that wait (`notify` in
   * {@link Complete} and {@link Release}). Best effort: a call may be lost or come for nothing, so whoever
   * watches looks at the record from time to time all the same.
   *
   * @param onEnd - called as often as it happens, until watching is stopped.
   * @returns how to stop, once whatever happens from now on is told; `undefined` where the store cannot
   * tell, as by default.
   */
  watch(
    _recordKey: RecordKey,
    _onEnd: () => void,
    _command: Watch,
  ): Promise<StopWatching | undefined> {
    return Promise.resolve(undefined);
  }

  /**
   * Lists records in progress whose lease has been over for a while and that carry an origin, a page at a time, for who
   * wants to find out what became of them. It promises nothing of them: whoever acts on one has to take it over first.
   * A record that somebody is at work on, without a lease that runs (a transaction holds it), is left out.
   *
   * A record that was there from the first page to the last is listed, once or more; in no certain order. A lease that lies
   * further ahead than its own length, because the store's clock stepped back, is shortened to that length on the way.
   *
   * @returns `undefined` where the store cannot tell, as by default.
   */
  abandoned(_command: Abandoned): Promise<AbandonedPage | undefined> {
    return Promise.resolve(undefined);
  }

  /**
   * How the store takes part in transactions of the application, for operations that are `transactional`; `undefined`
   * where it cannot, as by default.
   */
  get transactional(): TransactionalRecords | undefined {
    return undefined;
  }

  /**
   * Called when an application ends. The last one that has the store open closes what the store opened itself, and
   * nothing else; the others go on as if nothing had happened.
   *
   * @param observer - as it was given to {@link open}. One that never opened, of an application that never started,
   * takes nothing from those who did.
   */
  abstract close(observer?: StoreObserver): Promise<void>;
}

/** Who is told of what no command's reply tells. */
export interface StoreObserver {
  /**
   * A connection was ended because it gave the reply of another command: also where nobody waits for it any more, and
   * where no command fails of it.
   */
  replyMismatched(error: Error): void;

  /** Something that an operator should know, and that no command's reply tells: a connection was lost, say. */
  warned(warning: StoreWarning): void;
}

/** Something about the server's set-up that weakens what the library promises. */
export interface StoreWarning {
  /** Stable, in snake case. */
  readonly code: string;
  /** What was found and what to do about it. */
  readonly message: string;
}

interface TimedCommand {
  /** Milliseconds that the command may take with all its resends. */
  readonly timeoutMs: number;
}

export interface Begin extends TimedCommand {
  readonly recordKey: RecordKey;
  readonly token: OwnerToken;
  readonly fingerprint: Fingerprint;
  /** Milliseconds that the right to run lasts unless it is extended. */
  readonly leaseMs: number;
  /** Milliseconds after which no extension helps: a hung attempt loses its key. */
  readonly maxExecutionMs: number;
  /** Milliseconds that a record in progress is kept from now: the retention and {@link maxExecutionMs}. */
  readonly recordRetentionMs: number;
  /** The last millisecond of the store's clock at which acquiring still makes sense; 0 for no limit. */
  readonly notAfter: number;
  /** What to do about another attempt whose lease is over: take over, or say `abandoned`. */
  readonly onExpiredLease: 'takeover' | 'deny';
  /**
   * Where the record comes from (operation, scope, key), for operations that can be recovered from
   * outside: opaque text without white space, returned by inspect while the record is in progress.
   */
  readonly origin?: string | undefined;
}

export interface Extend extends TimedCommand {
  readonly leaseMs: number;
  /** As in {@link Begin.recordRetentionMs}. */
  readonly recordRetentionMs: number;
}

export interface Complete extends TimedCommand {
  readonly state: FinishedState;
  readonly outcome: Outcome;
  /** Milliseconds that the outcome can be replayed from now. */
  readonly retentionMs: number;
  /**
   * Of the content that the outcome answers: another attempt's outcome is handed over only where its record has the same.
   * Written with the outcome when the record is gone, or was released by another attempt.
   */
  readonly fingerprint: Fingerprint;
  /**
   * When there is no record any more: write the outcome of a success back, or only say so. A failure is never written
   * back: it could bury the effect of another attempt.
   */
  readonly whenGone: 'restore' | 'report';
  /**
   * Whether those who watch the record are to be told.
   * @defaultValue false
   */
  readonly notify?: boolean | undefined;
}

export interface Release extends TimedCommand {
  /** Milliseconds that the tombstone is kept. */
  readonly tombstoneMs: number;
  /** As in {@link Complete.notify}. */
  readonly notify?: boolean | undefined;
}

export type Inspect = TimedCommand;

/** Asks for a page. Its `timeoutMs` bounds the page. */
export interface Abandoned extends TimedCommand {
  /** Milliseconds that a lease has been over at least, by the store's clock. */
  readonly overMs: number;
  /** How many records a page has at the most; a few more where the database cannot stop in between. */
  readonly limit: number;
  /** {@link AbandonedPage.cursor} of the page before; left out for the first one. */
  readonly cursor?: string | undefined;
}

export interface AbandonedPage {
  /** May be empty although others follow. */
  readonly records: readonly AbandonedRecord[];
  /** Opaque: what the next page is asked for with. Left out on the last one. */
  readonly cursor?: string;
}

/** A record that nobody holds the lease of, as far as it takes to take it over. */
export interface AbandonedRecord {
  readonly recordKey: RecordKey;
  readonly fingerprint: Fingerprint;
  /** See {@link Begin.origin}. */
  readonly origin: string;
}

/** Its `timeoutMs` bounds how long it may take until watching has begun. */
export type Watch = TimedCommand;

/** Ends a watch. */
export type StopWatching = () => void;

/** The counters of an attempt that may run. */
export interface Acquisition {
  readonly fence: number;
  /** The store's clock in milliseconds. */
  readonly now: number;
  /** 1 for the first. */
  readonly attempt: number;
  readonly takeovers: number;
}

export type BeginReply =
  /** The attempt may run. */
  | ({ readonly kind: 'acquired' } & Acquisition)
  /** It had been acquired by an earlier copy of this very command. */
  | ({ readonly kind: 'owned' } & Acquisition)
  /** It may run; the lease of an earlier attempt ran out, whose fate is unknown. */
  | ({ readonly kind: 'takeover' } & Acquisition)
  | { readonly kind: 'in_progress'; readonly leaseLeftMs: number }
  /** The lease of another attempt is over and the command forbids to take over. */
  | {
      readonly kind: 'abandoned';
      readonly fence: number;
      readonly overMs: number;
      readonly attempt: number;
      readonly takeovers: number;
    }
  | { readonly kind: FinishedState; readonly outcome: Outcome; readonly retentionLeftMs: number }
  /** The record belongs to a request with another content. */
  | { readonly kind: 'mismatch' }
  /** A delayed copy of an attempt that was already released. */
  | { readonly kind: 'stale_begin' }
  /** The command came after its `notAfter`. */
  | { readonly kind: 'late'; readonly now: number };

export interface ExtendReply {
  readonly kind:
    | 'ok'
    /** The lease was over, but nobody took it. */
    | 'revived'
    | 'max_execution'
    /** Another attempt has the record. */
    | 'lost'
    /** There is no record. */
    | 'gone'
    /** It is this attempt's own, and it is finished or released. */
    | 'not_in_progress';
}

export type CompleteReply =
  /** `ok_late`: stored although the lease was over, or after another attempt had let go. */
  | { readonly kind: 'ok' | 'ok_late' }
  /** An earlier copy of this command stored it. */
  | { readonly kind: 'already' }
  /** Another attempt's outcome of the same content stands; it is the one that counts. */
  | { readonly kind: 'superseded'; readonly state: FinishedState; readonly outcome: Outcome }
  /** Another attempt has the record, or has let it go; where it is finished, with an outcome of another content. */
  | { readonly kind: 'lost'; readonly state: RecordState; readonly fence: number }
  /** There was no record: `restored`, the outcome was written back; `gone`, nothing was written. */
  | { readonly kind: 'restored' | 'gone' };

export interface ReleaseReply {
  readonly kind: 'ok' | 'already' | 'not_in_progress' | 'lost' | 'gone';
}

/** A record as inspect shows it: durations from now instead of instants of the store's clock. */
export interface IdempotencyRecord {
  readonly state: RecordState;
  readonly fence: number;
  readonly attempt: number;
  readonly takeovers: number;
  readonly fingerprint: Fingerprint;
  /** Milliseconds until the record ceases to exist. */
  readonly retentionLeftMs: number;
  /** Milliseconds, negative once the lease is over; only while in progress. */
  readonly leaseLeftMs?: number;
  /** Only while in progress, and only if begin carried one. */
  readonly origin?: string;
  /** Only once finished. */
  readonly outcome?: Outcome;
}
