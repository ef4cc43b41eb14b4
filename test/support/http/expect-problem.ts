import { expect } from '@jest/globals';
import type { RawResponse } from './raw-response.js';

interface Problem {
  readonly status: number;
  readonly title: string;
  readonly code: string;
  readonly retryable: boolean;
}

/** The library's own responses, by the last part of their type. */
export const problems = {
  'key-missing': {
    status: 400,
    title: 'Idempotency-Key is missing',
    code: 'idempotency_key_missing',
    retryable: false,
  },
  'key-invalid': {
    status: 400,
    title: 'Idempotency-Key is not valid',
    code: 'idempotency_key_invalid',
    retryable: false,
  },
  'caller-unknown': {
    status: 400,
    title: 'Idempotency-Key needs an authenticated caller',
    code: 'idempotency_caller_unknown',
    retryable: false,
  },
  'key-reused': {
    status: 422,
    title: 'Idempotency-Key was used for a different request',
    code: 'idempotency_key_reused',
    retryable: false,
  },
  'in-progress': {
    status: 409,
    title: 'A request with this Idempotency-Key is in progress',
    code: 'idempotency_in_progress',
    retryable: true,
  },
  'response-not-kept': {
    status: 409,
    title: 'The request was completed, its response was not kept',
    code: 'idempotency_response_not_kept',
    retryable: false,
  },
  'outcome-unknown': {
    status: 409,
    title: 'The outcome of the first request is unknown',
    code: 'idempotency_outcome_unknown',
    retryable: false,
  },
  misconfigured: {
    status: 500,
    title: 'The operation is misconfigured',
    code: 'idempotency_options_invalid',
    retryable: true,
  },
  'content-invalid': {
    status: 400,
    title: "The request's content cannot be compared",
    code: 'idempotency_content_invalid',
    retryable: false,
  },
  'shutting-down': {
    status: 503,
    title: 'The service is shutting down',
    code: 'idempotency_shutting_down',
    retryable: true,
  },
  'transaction-conflict': {
    status: 503,
    title: 'The transaction met a conflict',
    code: 'idempotency_transaction_conflict',
    retryable: true,
  },
  'store-unavailable': {
    status: 503,
    title: 'Idempotency store is unavailable',
    code: 'idempotency_store_unavailable',
    retryable: true,
  },
} as const satisfies Record<string, Problem>;

export type ProblemName = keyof typeof problems;

/** The response is exactly this problem document, and nothing of a replay. */
export function expectProblem(response: RawResponse, name: ProblemName, retryAfter = '1'): void {
  const { status, title, code, retryable } = problems[name];
  expect({ status: response.status, body: response.text }).toMatchObject({ status });
  expect(response.header('content-type')).toMatch(/^application\/problem\+json(; charset=utf-8)?$/);
  expect(response.header('retry-after')).toBe(retryable ? retryAfter : undefined);
  expect(response.replayed).toBe(false);
  expect(response.json).toEqual({
    type: expect.stringMatching(new RegExp(`^https?://.+/${name}$`)),
    title,
    status,
    detail: expect.any(String),
    code,
    retryable,
  });
}
