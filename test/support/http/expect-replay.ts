import { expect } from '@jest/globals';
import type { RawResponse } from './wire/raw-response.js';

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
