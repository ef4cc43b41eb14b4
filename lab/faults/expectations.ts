/** What the faults of a run allow, and what they do not. */
export interface Expectations {
  /**
   * How often an operation may have run again.
   *
   * - `never`: no lease was outlived, no process died.
   * - `reported to the second`: the owner was dead; its successor knows that it takes over.
   * - `reported to both`: the owner is alive, and was also notified of its loss.
   * - `reported to either`: any of these; the promise of a store that loses records.
   * - `any`: also unreported; the store has lost what no attempt is left to know.
   * - `any, with equal tokens`: after the loss the server's clock was set back, so that two attempts may have one token.
   */
  readonly extraExecutions:
    | 'never'
    | 'reported to the second'
    | 'reported to both'
    | 'reported to either'
    | 'any'
    | 'any, with equal tokens';
  /** Clients of one key may have seen different successes. */
  readonly differentSuccesses: boolean;
  /** The store may have lost outcomes that a client had seen: that cannot be detected. */
  readonly lostOutcomes: boolean;
  /** The store, or a worker in its shutdown, may have been unavailable for a key that was done. */
  readonly outages: boolean;
  /** Connections to workers may have broken. */
  readonly brokenConnections: boolean;
  /** Answers that a client may get besides the handler's own and its replays, in the words of `classOf`. */
  readonly otherResponses: readonly string[];
  /** How long a key may stay blocked after its owner's death, in milliseconds. */
  readonly maxBlockedMs: number | undefined;
}

/** A run in which nothing is tolerated. */
export const NOTHING_TOLERATED: Expectations = {
  extraExecutions: 'never',
  differentSuccesses: false,
  lostOutcomes: false,
  outages: false,
  brokenConnections: false,
  otherResponses: ['409 idempotency_in_progress'],
  maxBlockedMs: undefined,
};

/** What a transaction is answered with that was cut off, or got into another's way: nothing of it is left. */
export const CUT_OFF = [
  '503 idempotency_store_unavailable',
  '503 idempotency_transaction_conflict',
];

/** A retryable 503, each of them with a code of its own. */
export const UNAVAILABLE = ['503 idempotency_store_unavailable', '503 idempotency_shutting_down'];

/** What a process says of an outcome whose key of encryption it does not have. */
export const WITHOUT_ITS_KEY = ['503 idempotency_outcome_unavailable'];

/** What a client is told of an operation whose large body is nowhere: it is done, and does not run again. */
export const NOT_KEPT = ['409 idempotency_response_not_kept'];
