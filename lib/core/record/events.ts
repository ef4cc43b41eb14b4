import { isIdempotencyError } from '../errors/errors.js';
import type { RejectionCode } from '../errors/rejections.js';
import type { FinishedState, RecordKey } from './record.js';

/** How a request came in. */
export type Transport = 'http' | 'message' | 'websocket' | 'graphql' | 'call';

/** What each event of an operation names. */
export interface OperationBase {
  /** The operation's stable name. */
  readonly operation: string;
  /** Absent where the reconciler acts: it serves no request. */
  readonly transport?: Transport | undefined;
}

/** What each event of a record names. */
export interface EventBase extends OperationBase {
  /** The record key. It correlates events without revealing the key or the caller. */
  readonly recordKey: RecordKey;
}

/** The attempt that an event is about. */
export interface AttemptSubject extends EventBase {
  readonly attempt: number;
  /** 0 in an unprotected attempt. */
  readonly fencingToken: number;
}

/** Why a request was rejected: it was not executed and got no stored outcome. */
export type RejectionReason =
  | 'mismatch'
  | 'in_progress'
  | 'outcome_unknown'
  | 'outcome_unreadable'
  | 'outcome_unavailable'
  | 'too_many_attempts'
  | 'store_unavailable'
  | 'shutting_down';

/** Why a request was rejected before its begin. */
export type InvalidRequestReason =
  'key_missing' | 'key_invalid' | 'caller_unknown' | 'content_invalid';

/** The code that the client gets, by the reason. */
export const REJECTED_CODES = {
  mismatch: 'idempotency_key_reused',
  in_progress: 'idempotency_in_progress',
  outcome_unknown: 'idempotency_outcome_unknown',
  outcome_unreadable: 'idempotency_outcome_unreadable',
  outcome_unavailable: 'idempotency_outcome_unavailable',
  too_many_attempts: 'idempotency_too_many_attempts',
  store_unavailable: 'idempotency_store_unavailable',
  shutting_down: 'idempotency_shutting_down',
} as const satisfies Record<RejectionReason, RejectionCode>;

export const INVALID_REQUEST_CODES = {
  key_missing: 'idempotency_key_missing',
  key_invalid: 'idempotency_key_invalid',
  caller_unknown: 'idempotency_caller_unknown',
  content_invalid: 'idempotency_content_invalid',
} as const satisfies Record<InvalidRequestReason, RejectionCode>;

const INVALID_REQUESTS: ReadonlyMap<unknown, InvalidRequestReason> = new Map(
  Object.entries(INVALID_REQUEST_CODES).map(([reason, code]) => [
    code,
    reason as InvalidRequestReason,
  ]),
);

/** @internal The reason of a rejection before begin; `undefined` for any other error. */
export function invalidRequestReason(error: unknown): InvalidRequestReason | undefined {
  return isIdempotencyError(error) ? INVALID_REQUESTS.get(error.code) : undefined;
}

/** Why an operation runs without protection. All but `store_unavailable` are what the options ask for. */
export type UnprotectedReason =
  /** The store gave no reply, and `storeErrors.whenUnavailable` is `'execute'`. */
  | 'store_unavailable'
  /** The request has no key, and `key.required` is false. */
  | 'no_key'
  /** The caller is unknown, and `caller.anonymous` is `'ignore'`. */
  | 'no_caller'
  /** The option `enabled` is false, or its function returned false. */
  | 'disabled';

/** Why a stored outcome cannot be read. */
export type UnreadableReason =
  /** This process has no key of that id (module option `secrets`): deploy it, or put it back. */
  | 'key'
  /** It has no dictionary of that id (`outcome.compression`), or another one. */
  | 'dictionary'
  /** This version of Node cannot decompress it. */
  | 'algorithm'
  /** The blob that has its body is not there: was it deleted before its record? */
  | 'blob_missing'
  /** The blob store did not deliver its body. */
  | 'blob_unavailable'
  /** Its body is in a blob store that this process does not have (module option `blobs`). */
  | 'blob_store'
  /** It is damaged, or was written for another record. */
  | 'integrity'
  /** It is damaged, or was written by a later version. */
  | 'format';

/** How a duplicate's wait ended. */
export type WaitEnd =
  /** The outcome is stored, and the duplicate gets it. */
  | 'outcome'
  /** The attempt no longer has the key: the duplicate runs, or is rejected for another reason. */
  | 'released'
  | 'timeout'
  | 'caller_gone'
  | 'shutdown'
  /** It was rejected at once, because as many wait for its key as `limits.maxWaitersPerKey` allows. */
  | 'key_full'
  /** The same with `limits.maxWaitersPerCaller`. */
  | 'caller_full'
  /** The same with `limits.maxWaiters`. */
  | 'process_full';

/** How an attempt ended. */
export type AttemptEnd =
  /** Its success is stored. */
  | 'completed'
  /** Its failure is stored. */
  | 'failed'
  /** What `lease.onTakeover` found is stored. */
  | 'recovered'
  /** Its key is free: a retry runs the operation again. */
  | 'released'
  /** Another attempt's success is stored. */
  | 'superseded'
  /** Another attempt's failure is stored, or this attempt's success could not be stored. */
  | 'diverged'
  /** The operation succeeded, but its transaction was rolled back. */
  | 'rolled_back'
  /** Its transaction was rolled back because of a concurrent one. */
  | 'conflicted'
  /** Its outcome is not stored. */
  | 'unsaved'
  /** The store did not confirm its release: its key becomes free with the lease, unless another attempt has it. */
  | 'given_up'
  /** The operation did not start, and the request was rejected: the lease or the transaction could not be had in time. */
  | 'not_started';

/** Why an attempt can no longer rely on its lease. */
export type LeaseLossReason =
  /** Another attempt has the record. */
  | 'lost'
  /** The record disappeared from the store. */
  | 'gone'
  /** The attempt reached its hard deadline. */
  | 'max_execution'
  /** No extension was confirmed in time. */
  | 'expired'
  /** The connection of its transaction was lost, and with it all that the transaction wrote. */
  | 'connection_lost';

/** Events of the store as a whole belong to no operation. */
export interface StoreEventBase {
  readonly operation?: undefined;
  readonly transport?: undefined;
  readonly recordKey?: undefined;
}

/** The state of a circuit breaker. `half_open`: the store is being probed, and begins are still rejected. */
export type BreakerState = 'closed' | 'open' | 'half_open';

/** The circuit breaker around the store changes its state (module option `breaker`). */
export type BreakerEvent =
  /** Begins are now rejected at once; `error` is the failure that opened it. Also emitted after each failed probe. */
  | (StoreEventBase & { readonly type: 'breaker_opened'; readonly error: Error })
  /** The store is being probed. Begins are still rejected. */
  | (StoreEventBase & { readonly type: 'breaker_half_open' })
  /** The store replies again. */
  | (StoreEventBase & { readonly type: 'breaker_closed' });

/** A connection got another command's reply and was closed. Its requests get a 503; `error` says what to check. */
export type ReplyMismatchedEvent = StoreEventBase & {
  readonly type: 'reply_mismatched';
  readonly error: Error;
};

/**
 * Why a process gets no more messages of a queue of RabbitMQ. `cancelled`: the broker ended the consumer (from 4.3 on, at
 * its `consumer_timeout`; the queue was deleted). `channel_closed`: it closed the channel (until 4.2, at that timeout).
 */
export type ConsumerStopReason = 'cancelled' | 'channel_closed';

/** What links an event to the execution that it is about. */
export interface Traced {
  /** The trace of that execution, if its record has one. */
  readonly trace?: string | undefined;
}

/** The cause of a failure. */
export interface Caused {
  readonly error: unknown;
  /**
   * The error's code or, without one, its class: up to 64 letters, digits and `_.:/-`. Safe to log: a database's message
   * may contain data.
   */
  readonly errorType: string | undefined;
}

/** The result of a reconciler round: numbers of records by result. */
export interface ReconcileReport {
  /** Completed with the value that `lease.onTakeover` found. */
  readonly completed: number;
  /** Released, because nothing was done. The next request runs the operation. */
  readonly released: number;
  /** Taken over or finished by another attempt in the meantime. */
  readonly overtaken: number;
  /** `lease.onTakeover` threw or timed out (event `recovery_failed`), or the outcome was not stored in time. */
  readonly failed: number;
  /**
   * Not changed, because the record is another service's, this process has no such operation, or the operation has no
   * `lease.onTakeover` function.
   */
  readonly unknown: number;
  /**
   * `'complete'`: all abandoned records were processed. `'partial'`: the batch was full or the round was interrupted; the
   * next round continues there. `'already_running'`: another process is running a round.
   */
  readonly coverage: 'complete' | 'partial' | 'already_running';
}

/** All events of idempotent operations and their store. */
export type IdempotencyEvent =
  /** An attempt begins: its operation may run. */
  | (AttemptSubject & { readonly type: 'acquired' })
  /** The lease of an earlier attempt of this key expired: its outcome is unknown, and this attempt runs. */
  | (AttemptSubject & Traced & { readonly type: 'takeover' })
  /** `lease.onTakeover` found that the operation was done before. That is the outcome; the operation did not run. */
  | (AttemptSubject & { readonly type: 'recovered' })
  /** The reconciler called `lease.onTakeover`, which threw `error` or timed out. */
  | (AttemptSubject & Caused & { readonly type: 'recovery_failed' })
  /** The request got a stored outcome. */
  | (EventBase &
      Traced & {
        readonly type: 'replayed';
        readonly state: FinishedState;
        /**
         * What the client gets, in HTTP's terms: on other transports 200 for a value, 500 for a kept failure, and 409 for a
         * value that was not kept. Absent where the reconciler acts.
         */
        readonly status?: number | undefined;
      })
  /** A duplicate has waited for an attempt in progress (`duplicates: 'wait'`), or found no place to: see `end`. */
  | (EventBase & { readonly type: 'waited'; readonly waitedMs: number; readonly end: WaitEnd })
  /** The request was not executed and got no stored outcome, for `reason`. */
  | (EventBase & Traced & { readonly type: 'rejected'; readonly reason: RejectionReason })
  /** A stored outcome cannot be read, for `reason`. Its operation does not run again: the request is rejected. */
  | (EventBase & { readonly type: 'outcome_unreadable'; readonly reason: UnreadableReason })
  /**
   * The operation is done, but its outcome could not be compressed, encrypted or put into the blob store: only that it is
   * done is stored, and a retry gets 409 "response not kept".
   */
  | (AttemptSubject & Caused & { readonly type: 'pack_failed' })
  /** The keys of the module option `secrets` could not be loaded again. Those of the last time are used. */
  | (StoreEventBase & Caused & { readonly type: 'keys_stale' })
  /** The request was rejected before its begin: key, caller or content are missing or invalid. */
  | (OperationBase & {
      readonly type: 'invalid_request';
      readonly transport: Transport;
      readonly recordKey?: undefined;
      readonly reason: InvalidRequestReason;
    })
  /** The attempt's outcome is stored, and every retry gets it. */
  | (AttemptSubject & {
      readonly type: 'completed';
      readonly state: FinishedState;
      /** Whether the outcome was stored after the lease expired or after the response was sent. */
      readonly late: boolean;
      readonly durationMs: number;
      /** Of the outcome as it is stored. */
      readonly bytes: number;
    })
  /** The key is free: a retry runs the operation again. */
  | (AttemptSubject & { readonly type: 'released'; readonly durationMs: number })
  /** The attempt is over. Emitted once for each attempt, after all its other events. */
  | (AttemptSubject & {
      readonly type: 'ended';
      readonly how: AttemptEnd;
      readonly durationMs: number;
      /** Of the attempt's own outcome, if it is stored. */
      readonly bytes?: number;
    })
  /** The store did not confirm the release: another attempt has the key, or it becomes free with the lease. */
  | (AttemptSubject & { readonly type: 'release_failed' })
  /** The attempt has used half of `lease.maxExecution`. */
  | (AttemptSubject & { readonly type: 'slow_attempt'; readonly elapsedMs: number })
  /**
   * The attempt can no longer rely on its lease. Emitted up to twice per attempt: as `expired`, and when another attempt
   * is known to have the record.
   */
  | (AttemptSubject & { readonly type: 'lease_lost'; readonly reason: LeaseLossReason })
  /** Another attempt's success is stored instead of this attempt's. */
  | (AttemptSubject & { readonly type: 'superseded' })
  /**
   * Attempts of one key ended differently: a kept failure is stored, or this attempt's success could not be stored. Also
   * emitted if the key has since been reused for other content, whose outcome only its own callers get.
   */
  | (AttemptSubject & { readonly type: 'outcome_diverged' })
  /** The operation succeeded, but its response reports a failure. It is kept: a retry would repeat the effect. */
  | (AttemptSubject & { readonly type: 'response_diverged' })
  /** The record disappeared while an attempt held it. */
  | (AttemptSubject & { readonly type: 'record_lost' })
  /** The outcome is not stored yet. Saving continues in the background. */
  | (AttemptSubject & { readonly type: 'save_delayed' })
  /** The outcome is not stored: the store did not confirm it in time, or it is a failure whose record is gone. */
  | (AttemptSubject & { readonly type: 'save_failed' })
  /**
   * The operation succeeded, but its transaction was rolled back. `error` is the database's; undefined without a reply,
   * and where an interceptor had responded with a success while the operation was running.
   */
  | (AttemptSubject & Caused & { readonly type: 'rolled_back' })
  /**
   * The operation has committed its own transaction (a statement that commits by itself, a procedure): its outcome was not
   * stored with its writes, but after them. Had the process died in between, a retry would have run it again.
   */
  | (AttemptSubject & { readonly type: 'committed_apart' })
  /** The operation's transaction was rolled back because of a concurrent one. A retry may succeed. */
  | (AttemptSubject & { readonly type: 'conflicted' })
  /** The transaction was committed, but a hook (`onCommitted`) failed. */
  | (AttemptSubject & Caused & { readonly type: 'commit_hook_failed' })
  /**
   * The operation runs without protection, for `reason`: a retry runs it again. Not emitted for one that does not run,
   * nor for a safe method such as GET. Severity: `critical` for `store_unavailable`, `info` for `disabled`, else `notice`.
   */
  | (AttemptSubject & { readonly type: 'unprotected'; readonly reason: 'store_unavailable' })
  | (OperationBase & {
      readonly type: 'unprotected';
      readonly transport: Transport;
      readonly recordKey?: undefined;
      readonly reason: Exclude<UnprotectedReason, 'store_unavailable'>;
    })
  /**
   * A function given as `option` threw, or returned something else, when the operation had had its effect. The safe side
   * was taken: the outcome is kept, for the longer time, or the message is requeued. Logged once per operation and option.
   */
  | (OperationBase &
      Caused & {
        readonly type: 'option_failed';
        readonly recordKey?: RecordKey | undefined;
        readonly option: string;
      })
  /**
   * A request without a key has a header, or a payload a member, of a similar `name`, which is not read
   * (`X-Idempotency-Key`). Logged once per operation and name.
   */
  | (OperationBase & {
      readonly type: 'key_misnamed';
      readonly transport: Transport;
      readonly recordKey?: undefined;
      readonly name: string;
    })
  /** The store gave no reply to a begin or to the reconciler, or rejected it: `error` says why. */
  | (EventBase & {
      readonly type: 'store_unavailable';
      readonly source: 'request' | 'reconcile';
      readonly error: Error;
    })
  /** This process has run a reconciler round. */
  | (StoreEventBase & {
      readonly type: 'reconciled';
      readonly report: ReconcileReport;
      readonly durationMs: number;
    })
  /**
   * An operator has acted on a record, or was refused: `result` is that of `IdempotencyRecords`, or `failed` if the store gave
   * no reply. With `isAudited: false`, `operator.audit` failed after the act: its entry is missing.
   */
  | {
      readonly type: 'operator_action';
      readonly operation?: undefined;
      readonly transport?: undefined;
      readonly recordKey: RecordKey;
      readonly action: 'release' | 'complete' | 'reopen' | 'redact' | 'retain' | 'delete';
      readonly actor: string;
      readonly result:
        ('ok' | 'already' | 'changed' | 'running' | 'too_fresh' | 'not_applicable') | 'failed';
      readonly isAudited: boolean;
    }
  /**
   * A record was changed, but the store's journal has no entry of that, for `reason`: a word of the server's error. Each is
   * counted (`idempotency.journal.missed`); the first one is logged.
   */
  | {
      readonly type: 'journal_incomplete';
      readonly operation?: undefined;
      readonly transport?: undefined;
      readonly recordKey: RecordKey;
      readonly reason: string;
    }
  /** RabbitMQ has ended the consumer of a queue: this process gets no more messages of it until it connects again. */
  | {
      readonly type: 'consumer_stopped';
      readonly operation?: undefined;
      readonly transport: 'message';
      readonly recordKey?: undefined;
      readonly queue: string;
      readonly reason: ConsumerStopReason;
    }
  | ReplyMismatchedEvent
  | BreakerEvent;

/** The names of all events. */
export type IdempotencyEventType = IdempotencyEvent['type'];

/** The events of ordinary traffic. */
export type FrequentEventType =
  'acquired' | 'completed' | 'released' | 'ended' | 'replayed' | 'rejected';

/**
 * How much attention an event needs. `critical` and `warning`: it is logged, as an error or a warning, unless a
 * subscriber has `replacesLog`. `notice`: many of them show a problem. `info`: ordinary traffic.
 */
export type EventSeverity = 'info' | 'notice' | 'warning' | 'critical';

/** The severity of each event; that of `unprotected` is lower for some reasons, see {@link severityOf}. */
export const EVENT_SEVERITY: Readonly<Record<IdempotencyEventType, EventSeverity>> = {
  acquired: 'info',
  takeover: 'notice',
  recovered: 'info',
  recovery_failed: 'warning',
  replayed: 'info',
  waited: 'info',
  rejected: 'info',
  outcome_unreadable: 'critical',
  pack_failed: 'critical',
  keys_stale: 'warning',
  invalid_request: 'info',
  completed: 'info',
  released: 'info',
  ended: 'info',
  release_failed: 'notice',
  slow_attempt: 'notice',
  lease_lost: 'notice',
  superseded: 'critical',
  outcome_diverged: 'critical',
  response_diverged: 'notice',
  record_lost: 'critical',
  save_delayed: 'warning',
  save_failed: 'critical',
  rolled_back: 'warning',
  committed_apart: 'warning',
  conflicted: 'notice',
  commit_hook_failed: 'warning',
  unprotected: 'critical',
  option_failed: 'warning',
  key_misnamed: 'warning',
  store_unavailable: 'warning',
  reconciled: 'info',
  operator_action: 'notice',
  journal_incomplete: 'notice',
  consumer_stopped: 'notice',
  reply_mismatched: 'warning',
  breaker_opened: 'warning',
  breaker_half_open: 'notice',
  breaker_closed: 'notice',
};

const UNPROTECTED_SEVERITY: Readonly<Record<UnprotectedReason, EventSeverity>> = {
  store_unavailable: EVENT_SEVERITY.unprotected,
  no_key: 'notice',
  no_caller: 'notice',
  disabled: 'info',
};

/** Returns the severity of an event, which depends on the reason where it is `unprotected`. */
export function severityOf(event: IdempotencyEvent): EventSeverity {
  return event.type === 'unprotected'
    ? UNPROTECTED_SEVERITY[event.reason]
    : EVENT_SEVERITY[event.type];
}
