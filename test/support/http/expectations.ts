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

/** Belong to the exchange or to the connection: neither stored nor replayed. */
const OF_THE_EXCHANGE = new Set(
  [
    'Date Connection Keep-Alive Proxy-Connection TE Trailer Transfer-Encoding Upgrade Content-Length',
    'Set-Cookie X-Request-Id traceparent Server-Timing Age Via Server WWW-Authenticate',
    'Authorization Authentication-Info X-Auth-Token X-Amzn-Trace-Id',
    'RateLimit-Limit RateLimit-Remaining Access-Control-Allow-Origin Idempotent-Replayed X-Exchange',
  ]
    .join(' ')
    .toLowerCase()
    .split(' '),
);

/** The header lines that the first response and its replay share, sorted by name, repeated ones in order. */
export function lastingHeaders(response: RawResponse): string[] {
  return response.lines
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .filter(([name]) => !OF_THE_EXCHANGE.has(name))
    .sort(([a], [b]) => (a < b ? -1 : Number(a > b)))
    .map(([name, value]) => `${name}: ${value}`);
}

/** `replay` is marked and equals the unmarked first response in status, headers and every byte. */
export function expectReplay(replay: RawResponse, first: RawResponse): void {
  expect({ marked: first.replayed, of: 'the first response' }).toMatchObject({ marked: false });
  expect({ status: replay.status, text: printable(replay) }).toEqual({
    status: first.status,
    text: printable(first),
  });
  expect(replay.body.equals(first.body)).toBe(true);
  expect(lastingHeaders(replay)).toEqual(lastingHeaders(first));
  expect({ marked: replay.replayed, of: 'the replay' }).toMatchObject({ marked: true });
}

function printable({ body }: RawResponse): string {
  return body.toString('latin1', 0, 2_000);
}
