import { wrongResult, type OptionObserver } from '../options/option-checks.js';

/** An attempt's end, as `outcome.keep` and `outcome.retention` receive it. */
export interface OutcomeSummary {
  /** The HTTP status. Absent for calls and messages. */
  readonly status?: number;
  /** What the operation threw. Absent if it returned. */
  readonly error?: unknown;
}

/**
 * Decides whether an outcome is kept and replayed, or the key released so that the operation can run again at once. Must
 * be pure: it may be called twice for an attempt. If it throws, or returns no boolean, the outcome is kept, which the log
 * and the event `option_failed` say.
 */
export type OutcomePolicy = (summary: OutcomeSummary) => boolean;

/** Statuses that ask the client to retry, or that come from guards and other middleware before the operation. */
const RETRYABLE_STATUSES = new Set([401, 403, 408, 412, 425, 429]);

/** The default on HTTP (contract, decision 8): keeps 2xx, 3xx and the 4xx that result from the request itself. */
export function keepResponses({ status = 200 }: OutcomeSummary): boolean {
  return status < 500 && !RETRYABLE_STATUSES.has(status);
}

/** The default for calls: keeps what the operation returned, not what it threw. */
export function keepSuccesses(summary: OutcomeSummary): boolean {
  // `undefined` can be thrown, too.
  return !('error' in summary);
}

/** Calls a policy. If it fails, the outcome is kept: released, an operation that has had its effect would run again. */
export function asksToKeep(
  policy: OutcomePolicy,
  summary: OutcomeSummary,
  observer: OptionObserver,
): boolean {
  try {
    const result: unknown = policy(summary);
    if (typeof result === 'boolean') return result;
    throw wrongResult('outcome.keep', 'true or false', result);
  } catch (error) {
    observer.optionFailed('outcome.keep', error);
    return true;
  }
}
