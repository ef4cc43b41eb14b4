import type { IdempotencyProblem } from './errors.js';

/** Which answers the caller wants to be retried, beyond those that always are. */
export interface RetryChoices {
  readonly retryServerErrors: boolean;
  readonly retryThrottled: boolean;
}

export interface Answer {
  readonly status: number;
  readonly replayed: boolean;
  readonly problem: IdempotencyProblem | undefined;
}

/** Whether the answer is the last word: a repetition with the same key would not get another one. */
export function isSettled(answer: Answer, choices: RetryChoices): boolean {
  const { status, replayed, problem } = answer;
  // A stored outcome never changes, not even a 500 that the server was told to keep.
  if (replayed) return true;
  if (problem?.code === 'idempotency_in_progress') return false;
  switch (status) {
    case 408:
    case 503:
      return false;
    case 425:
    case 429:
      return !choices.retryThrottled;
    // "Not implemented" and "HTTP version not supported" do not pass.
    case 501:
    case 505:
      return true;
    default:
      return status < 500 || !choices.retryServerErrors;
  }
}
