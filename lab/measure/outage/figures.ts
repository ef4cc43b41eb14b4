import type { MeasuredResponse } from './http-client.js';

/** Milliseconds, to the tenth. */
export interface Figures {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export function figuresOf(durations: readonly number[]): Figures {
  const sorted = [...durations].sort((one, other) => one - other);
  const rank = (part: number) => tenth(sorted[Math.ceil(part * sorted.length) - 1] ?? NaN);
  return { count: sorted.length, p50: rank(0.5), p99: rank(0.99), max: rank(1) };
}

/** @throws Error when an answer is not the one that the policy promises. */
export function expectResponses(
  responses: readonly MeasuredResponse[],
  policy: 'reject' | 'execute',
): void {
  for (const response of responses) {
    const { status, retryAfter, idempotencyStatus } = response;
    const isRight =
      policy === 'reject'
        ? status === 503 && Number(retryAfter) >= 1
        : status === 201 && idempotencyStatus === 'unprotected';
    if (!isRight) throw new Error(`not the answer of '${policy}': ${JSON.stringify(response)}`);
  }
}

function tenth(ms: number): number {
  return Math.round(ms * 10) / 10;
}
