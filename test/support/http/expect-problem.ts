import { expect } from '@jest/globals';
import { REJECTIONS, type Rejection } from '../internals/core.js';
import type { RawResponse } from './wire/raw-response.js';

type Rejections = typeof REJECTIONS;

export type ProblemName = Rejections[keyof Rejections]['page'];

/** The library's own responses, by the last part of their type. The pages in docs/reference/problems hold the table. */
export const problems = Object.fromEntries(
  Object.entries(REJECTIONS).map(([code, rejection]) => [rejection.page, { code, ...rejection }]),
) as Readonly<Record<ProblemName, Rejection & { readonly code: string }>>;

/** The response is exactly this problem document, and nothing of a replay. */
export function expectProblem(response: RawResponse, name: ProblemName, retryAfter = '1'): void {
  const { status, title, detail, code, retryable } = problems[name];
  expect({ status: response.status, body: response.text }).toMatchObject({ status });
  expect(response.header('content-type')).toMatch(/^application\/problem\+json(; charset=utf-8)?$/);
  expect(response.header('retry-after')).toBe(retryable ? retryAfter : undefined);
  expect(response.replayed).toBe(false);
  expect(response.json).toEqual({
    type: expect.stringMatching(new RegExp(`^https?://.+/${name}$`)),
    title,
    status,
    detail,
    code,
    retryable,
  });
}
