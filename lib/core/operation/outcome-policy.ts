import { ignoreResult } from '../util/maybe-async.js';
import type { OutcomeSummary } from './options.js';

/**
 * Decides whether an outcome is kept and replayed, or released so that the operation may run again at
 * once. It must be pure: it may be asked twice about one attempt. One that throws counts as the default.
 */
export type OutcomePolicy = (summary: OutcomeSummary) => boolean;

/** Statuses that ask the caller to come back, or that the layers in front of the operation give. */
const COME_BACK = new Set([401, 403, 408, 412, 425, 429]);

/** The default on HTTP (contract, decision 8): 2xx, 3xx and the 4xx that are an answer to this very request. */
export function keepResponses({ status = 200 }: OutcomeSummary): boolean {
  return status < 500 && !COME_BACK.has(status);
}

/** The default of plain calls: whatever returned is kept, whatever was thrown is not. */
export function keepSuccesses(summary: OutcomeSummary): boolean {
  // By presence: what was thrown may be `undefined`.
  return !('error' in summary);
}

/**
 * Asks a policy, and the default in its place when it throws or answers with a promise: the operation has had its effect by then,
 * and an attempt that nobody ends would keep its key until the hard deadline.
 */
export function asksToKeep(
  policy: OutcomePolicy,
  byDefault: OutcomePolicy,
  summary: OutcomeSummary,
): boolean {
  try {
    const result: unknown = policy(summary);
    if (typeof result === 'boolean') return result;
    ignoreResult('keep', result);
  } catch {
    // As if it had said nothing.
  }
  return byDefault(summary);
}
