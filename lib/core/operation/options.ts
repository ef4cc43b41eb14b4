import type { FinishedState } from '../record/record.js';
import type { IsolationLevel } from '../transaction/unit-of-work.js';
import { ignoreResult } from '../util/maybe-async.js';
import { checkBoolean, checkChoice, checkInteger } from '../util/option-checks.js';
import type { Recover } from './recovery.js';

/** An attempt's end, as `keep` and `retentionMs` receive it. */
export interface OutcomeSummary {
  /** The HTTP status. Absent for calls and messages. */
  readonly status?: number;
  /** What the operation threw. Absent if it returned. */
  readonly error?: unknown;
}

/** How an operation is protected, on every transport. All durations are in milliseconds. */
export interface ProtocolOptions {
  /**
   * Length of the lease, an attempt's time-limited right to run. It is extended after each third while the operation
   * runs: it limits how long a crash blocks a key, not how long the operation may take. 100 to 3 600 000.
   * @defaultValue 10_000
   */
  readonly leaseMs?: number;
  /**
   * The hard deadline: a hung operation loses its key (event `slow_attempt` after half). `leaseMs` to 86 400 000.
   * @defaultValue 300_000
   */
  readonly maxExecutionMs?: number;
  /**
   * How long an outcome can be replayed, from its completion; replays do not extend it (contract C80–C82a). 1 to
   * 31 536 000 000 (a year). A function can choose it by the outcome, for example shorter for a kept failure. The default
   * then applies to records in progress, and to an outcome for which the function throws or returns an invalid value.
   * @defaultValue 86_400_000
   */
  readonly retentionMs?: number | ((outcome: OutcomeSummary & { state: FinishedState }) => number);
  /**
   * What a duplicate of an operation in progress gets: `'reject'`, a 409 with Retry-After at once; `'wait'`, the first
   * outcome once stored (contract C50, C55).
   * @defaultValue 'reject'
   */
  readonly whenInProgress?: 'reject' | 'wait';
  /**
   * How long a duplicate waits before it is rejected, and an attempt that has lost its record waits for the attempt that
   * has it. An HTTP client can shorten it with `Prefer: wait=N`, in seconds (RFC 7240 §4.3). 1 to 3 600 000.
   * @defaultValue 10_000
   */
  readonly waitTimeoutMs?: number;
  /**
   * The Retry-After of a rejected request; HTTP rounds it up to seconds. 1 to 86 400 000.
   * @defaultValue 1_000
   */
  readonly retryAfterMs?: number;
  /**
   * What to do after an attempt's lease has expired, when it is unknown whether it had its effect: `'run'` the
   * operation again, with `isTakeover` in its context; `'reject'` with 409 outcome unknown, for operations that must
   * never run twice. A {@link Recover} function looks up the business data and returns `'run'`, or `{ value }` with
   * what the operation would have returned; its records in progress contain operation, scope and key in readable form.
   * @defaultValue 'run'
   */
  readonly onTakeover?: 'run' | 'reject' | Recover;
  /**
   * What to do if the store is unavailable before the operation starts: `'reject'` with 503 (contract C87), or
   * `'execute'` without protection, reported by the event `unprotected` and the HTTP header
   * `Idempotency-Status: unprotected`.
   * @defaultValue 'reject'
   */
  readonly onStoreUnavailable?: 'reject' | 'execute';
  /**
   * The timeout of a store command, including resends. For a heartbeat, at most a quarter of its lease. 1 to 60 000.
   * @defaultValue 500
   */
  readonly commandTimeoutMs?: number;
  /**
   * If the operation is done, but its outcome is not stored within `saveTimeoutMs`: `'respond'` with it, as a client
   * with a response does not retry, or `'error'`, a 503. Saving continues in the background (contract C87a).
   * @defaultValue 'respond'
   */
  readonly onSaveFailure?: 'respond' | 'error';
  /**
   * How long a response waits until its outcome is stored or its key released. 1 to 60 000.
   * @defaultValue 1_000
   */
  readonly saveTimeoutMs?: number;
  /**
   * Whether to run the operation in a transaction of the module option `unitOfWork`. The operation's writes and its
   * outcome are committed together, or not at all. If the operation throws, or its outcome is not kept, they are rolled
   * back. Requires a store in the same database. `onSaveFailure` is then always `'error'`.
   * @defaultValue false
   */
  readonly transactional?: boolean;
  /**
   * The isolation level of the transaction: `'read committed'`, `'repeatable read'`, `'serializable'`, or `'default'`,
   * the database's default.
   * @defaultValue 'default'
   */
  readonly isolation?: IsolationLevel | 'default';
  /**
   * How often to retry an operation in a new transaction after a conflict with a concurrent one (serialization failure,
   * deadlock). Then the caller gets a retryable error. On HTTP, only conflicts while the handler runs are retried: at the
   * commit the response is already made, and the client must retry. 0 to 10.
   * @defaultValue 0
   */
  readonly conflictRetries?: number;
}

export type ResolvedProtocolOptions = Required<ProtocolOptions>;

/** Options of the process, not of an operation. */
export interface EngineOptions {
  /**
   * How many duplicates can wait at a time in this process; more are rejected. 0 to 1 000 000.
   * @defaultValue 1_000
   */
  readonly maxWaiters?: number;
  /**
   * How long a shutdown waits for running operations and pending saves. 0 to 3 600 000.
   * @defaultValue 10_000
   */
  readonly shutdownTimeoutMs?: number;
}

const DAY_MS = 86_400_000;

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

export function checkEngineOptions(options: Required<EngineOptions>): void {
  checkInteger('maxWaiters', options.maxWaiters, 0, 1_000_000);
  checkInteger('shutdownTimeoutMs', options.shutdownTimeoutMs, 0, 3_600_000);
}

/** Whether duplicates may wait for the end of an attempt and must be notified. */
export function isAwaited({ whenInProgress }: ResolvedProtocolOptions): boolean {
  return whenInProgress === 'wait';
}

export function unfinishedRetentionMs({ retentionMs }: ResolvedProtocolOptions): number {
  return typeof retentionMs === 'number' ? retentionMs : DAY_MS;
}

/** How long a record in progress is kept, from its begin or last extension. */
export function inProgressRetentionMs(options: ResolvedProtocolOptions): number {
  return unfinishedRetentionMs(options) + options.maxExecutionMs;
}

/** The operation has had its effect: if the function throws or returns an invalid value, the default applies. */
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
