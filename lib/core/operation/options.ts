import type { FinishedState } from '../record/record.js';
import type { IsolationLevel } from '../transaction/unit-of-work.js';
import { ignoreResult } from '../util/maybe-async.js';
import { checkBoolean, checkChoice, checkInteger } from '../util/option-checks.js';
import type { Recover } from './recovery.js';

/** What the outcome policy and the retention are told about an attempt's end. */
export interface OutcomeSummary {
  /** The HTTP status; absent where there is none (plain calls, messages). */
  readonly status?: number;
  /** What the operation threw; absent when it returned. */
  readonly error?: unknown;
}

/** How one operation is protected, whichever way its requests come in. All durations in milliseconds. */
export interface ProtocolOptions {
  /**
   * The time-limited right of an attempt to run. It is renewed at a third of its length for as long as
   * the operation runs, so it bounds how long a key stays blocked after a crash, not how long the
   * operation may take. 100 to 3 600 000.
   * @defaultValue 10_000
   */
  readonly leaseMs?: number;
  /**
   * The hard deadline of an attempt: a hung operation loses its key then. An attempt past half of it
   * raises the event `slow_attempt`. From `leaseMs` to 86 400 000.
   * @defaultValue 300_000
   */
  readonly maxExecutionMs?: number;
  /**
   * How long an outcome can be replayed, counted from completion and not prolonged by replays
   * (contract C80–C82a). 1 to 31 536 000 000 (a year). A function of the outcome may shorten it, for a
   * kept failure say; records in progress are then kept for the default, and so is an outcome for
   * which it throws or returns no retention.
   * @defaultValue 86_400_000
   */
  readonly retentionMs?: number | ((outcome: OutcomeSummary & { state: FinishedState }) => number);
  /**
   * What a duplicate of an operation in progress gets: `'reject'`, a 409 with Retry-After at once, or
   * `'wait'`, the first one's outcome as soon as it is there (contract C50, C55).
   * @defaultValue 'reject'
   */
  readonly whenInProgress?: 'reject' | 'wait';
  /**
   * How long a duplicate waits at the most before it is rejected after all, and how long an attempt that
   * has lost its record waits for the one that has it. On HTTP a client shortens it by `Prefer: wait=N`, in
   * seconds (RFC 7240 §4.3). 1 to 3 600 000.
   * @defaultValue 10_000
   */
  readonly waitTimeoutMs?: number;
  /**
   * What a rejected caller is told to wait before it tries again, rounded up to seconds on the wire.
   * 1 to 86 400 000.
   * @defaultValue 1_000
   */
  readonly retryAfterMs?: number;
  /**
   * What to do on a key whose owner's lease ran out, so that nobody knows whether it had its effect:
   * `'run'` the operation again (its context says `isTakeover`), `'reject'` with 409 outcome unknown, for
   * operations that must never repeat, or a {@link Recover} function, which looks into the business data and
   * answers `'run'` or, with what the operation would have returned, `{ value }`. Its record then holds operation,
   * scope and key in readable form for as long as it is in progress.
   * @defaultValue 'run'
   */
  readonly onTakeover?: 'run' | 'reject' | Recover;
  /**
   * What to do when the store cannot be reached before the operation started: `'reject'` with 503
   * (contract C87), or `'execute'` without protection, marked by the event `unprotected` and, on HTTP,
   * by the header `Idempotency-Status: unprotected`.
   * @defaultValue 'reject'
   */
  readonly onStoreUnavailable?: 'reject' | 'execute';
  /**
   * The time one store operation may take with all its resends; a heartbeat takes at most a quarter of
   * its lease. 1 to 60 000.
   * @defaultValue 500
   */
  readonly commandTimeoutMs?: number;
  /**
   * What to answer when the operation is done and its outcome could not be stored within
   * `saveTimeoutMs`: `'respond'` with the real outcome, for a client that has its answer does not
   * retry, or `'error'`, a 503. Both go on saving in the background (contract C87a).
   * @defaultValue 'respond'
   */
  readonly onSaveFailure?: 'respond' | 'error';
  /**
   * How long an answer waits for its outcome to be stored, or for its key to be released. 1 to 60 000.
   * @defaultValue 1_000
   */
  readonly saveTimeoutMs?: number;
  /**
   * Runs the operation in a transaction of the module option `unitOfWork`, which holds its record, too: either
   * everything is committed, what the operation has written and its outcome, or nothing. It is rolled back when the
   * operation throws, or ends with an outcome that is not kept. Needs a store in the same database. Then
   * `onSaveFailure` is always `'error'`.
   * @defaultValue false
   */
  readonly transactional?: boolean;
  /**
   * How far the transaction is kept apart from concurrent ones: `'read committed'`, `'repeatable read'`,
   * `'serializable'`, or `'default'`, the database's own.
   * @defaultValue 'default'
   */
  readonly isolation?: IsolationLevel | 'default';
  /**
   * How often an operation is run again, in a new transaction, after a concurrent one was in its way (serialization
   * failure, deadlock), before the caller is told to come back. On HTTP only where that shows while the handler runs:
   * at the commit its answer has been made, and the caller has to come back. 0 to 10.
   * @defaultValue 0
   */
  readonly conflictRetries?: number;
}

/** {@link ProtocolOptions} with every default filled in. */
export type ResolvedProtocolOptions = Required<ProtocolOptions>;

/** Options of the whole process rather than of one operation. */
export interface EngineOptions {
  /**
   * How many duplicates of this process may wait at a time; more are rejected. 0 to 1 000 000.
   * @defaultValue 1_000
   */
  readonly maxWaiters?: number;
  /**
   * How long the shutdown waits for running operations and pending saves. 0 to 3 600 000.
   * @defaultValue 10_000
   */
  readonly shutdownTimeoutMs?: number;
}

const DAY_MS = 86_400_000;

/** The defaults of {@link ProtocolOptions}. */
export const PROTOCOL_DEFAULTS: ResolvedProtocolOptions = Object.freeze({
  leaseMs: 10_000,
  maxExecutionMs: 300_000,
  retentionMs: DAY_MS,
  whenInProgress: 'reject',
  waitTimeoutMs: 10_000,
  retryAfterMs: 1_000,
  onTakeover: 'run',
  onStoreUnavailable: 'reject',
  commandTimeoutMs: 500,
  onSaveFailure: 'respond',
  saveTimeoutMs: 1_000,
  transactional: false,
  isolation: 'default',
  conflictRetries: 0,
});

/** The defaults of {@link EngineOptions}. */
export const ENGINE_DEFAULTS: Required<EngineOptions> = Object.freeze({
  maxWaiters: 1_000,
  shutdownTimeoutMs: 10_000,
});

const RETENTION_MAX_MS = 365 * DAY_MS;

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function checkProtocolOptions(options: ResolvedProtocolOptions): void {
  checkInteger('leaseMs', options.leaseMs, 100, 3_600_000);
  checkInteger('maxExecutionMs', options.maxExecutionMs, options.leaseMs, DAY_MS);
  if (typeof options.retentionMs !== 'function') {
    checkInteger('retentionMs', options.retentionMs, 1, RETENTION_MAX_MS);
  }
  checkChoice('whenInProgress', options.whenInProgress, ['reject', 'wait']);
  checkInteger('waitTimeoutMs', options.waitTimeoutMs, 1, 3_600_000);
  checkInteger('retryAfterMs', options.retryAfterMs, 1, DAY_MS);
  checkChoice('onTakeover', options.onTakeover, ['run', 'reject'], 'orFunction');
  checkChoice('onStoreUnavailable', options.onStoreUnavailable, ['reject', 'execute']);
  checkInteger('commandTimeoutMs', options.commandTimeoutMs, 1, 60_000);
  checkChoice('onSaveFailure', options.onSaveFailure, ['respond', 'error']);
  checkInteger('saveTimeoutMs', options.saveTimeoutMs, 1, 60_000);
  checkBoolean('transactional', options.transactional);
  checkChoice('isolation', options.isolation, [
    'default',
    'read committed',
    'repeatable read',
    'serializable',
  ]);
  checkInteger('conflictRetries', options.conflictRetries, 0, 10);
}

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function checkEngineOptions(options: Required<EngineOptions>): void {
  checkInteger('maxWaiters', options.maxWaiters, 0, 1_000_000);
  checkInteger('shutdownTimeoutMs', options.shutdownTimeoutMs, 0, 3_600_000);
}

/** Whether duplicates may be waiting for the end of an attempt, and want to be told. */
export function isAwaited({ whenInProgress }: ResolvedProtocolOptions): boolean {
  return whenInProgress === 'wait';
}

/** How long a record lives that is not finished yet. */
export function unfinishedRetentionMs({ retentionMs }: ResolvedProtocolOptions): number {
  return typeof retentionMs === 'number' ? retentionMs : DAY_MS;
}

/** How long a record in progress is kept, from its begin or its latest extension. */
export function inProgressRetentionMs(options: ResolvedProtocolOptions): number {
  return unfinishedRetentionMs(options) + options.maxExecutionMs;
}

/**
 * How long the outcome of `summary` is kept. The effect has happened by then, so a function that throws
 * or returns what is no retention costs nobody his outcome: the default holds.
 */
export function finishedRetentionMs(
  { retentionMs }: ResolvedProtocolOptions,
  summary: OutcomeSummary & { state: FinishedState },
): number {
  if (typeof retentionMs === 'number') return retentionMs;
  try {
    const chosen: unknown = retentionMs(summary);
    ignoreResult('retentionMs', chosen);
    checkInteger('retentionMs', chosen, 1, RETENTION_MAX_MS);
    return chosen as number;
  } catch {
    return DAY_MS;
  }
}
