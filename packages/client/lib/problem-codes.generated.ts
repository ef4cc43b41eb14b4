// Made from lib/core/errors/rejections.ts by "npm run texts": change the table there.

/** The server's problem codes, and whether a retry of the same request may succeed. */
export const PROBLEM_RETRYABLE = {
  idempotency_key_missing: false,
  idempotency_key_invalid: false,
  idempotency_caller_unknown: false,
  idempotency_content_invalid: false,
  idempotency_in_progress: true,
  idempotency_response_not_kept: false,
  idempotency_outcome_unknown: false,
  idempotency_outcome_unreadable: false,
  idempotency_outcome_unavailable: true,
  idempotency_key_reused: false,
  idempotency_too_many_attempts: true,
  idempotency_options_invalid: true,
  idempotency_store_unavailable: true,
  idempotency_transaction_conflict: true,
  idempotency_shutting_down: true,
} as const;
