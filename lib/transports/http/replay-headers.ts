import type { OutgoingHttpHeaders } from 'node:http';

/** Fields of a single exchange (contract C64–C67): generated for every response, or dangerous to replay. */
export const PER_EXCHANGE: ReadonlySet<string> = new Set([
  // Framing and connection (RFC 9110 §7.6.1, RFC 9112 §6).
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  // Metadata of one message, and of the caches and proxies that it passed.
  'age',
  'cache-status',
  'cf-cache-status',
  'date',
  'proxy-status',
  'server',
  'server-timing',
  'via',
  'x-cache',
  'x-cache-hits',
  'x-cache-status',
  'x-envoy-upstream-service-time',
  'x-response-time',
  'x-runtime',
  'x-served-by',
  'x-timer',
  'x-varnish',
  // Session and authentication: credentials, challenges, and what is valid once.
  'authentication-control',
  'authentication-info',
  'authorization',
  'clear-site-data',
  'cookie',
  'dpop',
  'dpop-nonce',
  'optional-www-authenticate',
  'otp',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'replay-nonce',
  'set-cookie',
  'set-cookie2',
  'www-authenticate',
  'session-id',
  'x-session-id',
  // Tracing.
  'b3',
  'baggage',
  'cf-ray',
  'correlation-id',
  'request-id',
  'sentry-trace',
  'traceparent',
  'traceresponse',
  'tracestate',
  'uber-trace-id',
  'x-amz-cf-id',
  'x-amz-id-2',
  'x-amz-request-id',
  'x-amzn-requestid',
  'x-amzn-trace-id',
  'x-cloud-trace-context',
  'x-correlation-id',
  'x-ms-request-id',
  'x-request-id',
  'x-trace-id',
]);

/** The beginnings of further names. */
export const PER_EXCHANGE_FAMILIES: readonly string[] = [
  'access-control-',
  'ratelimit',
  'x-b3-',
  'x-datadog-',
  'x-ratelimit-',
  'x-rate-limit-',
];

/** The ends of names of credentials, with and without a prefix. */
export const CREDENTIALS: readonly string[] = [
  'token',
  'secret',
  'password',
  'jwt',
  'jwt-assertion',
  '-otp',
  'access-key',
  'api-key',
  'apikey',
  'auth-key',
  'private-key',
  'secret-key',
];

/** Ends as a credential does, but is a place in a list or the name of a lock: part of the outcome. */
export const NO_CREDENTIALS: readonly string[] = [
  'continuation-token',
  'cursor-token',
  'fencing-token',
  'lock-token',
  'next-token',
  'page-token',
  'sync-token',
];

/** Whether a field may be replayed; `name` in lower case. */
export function isReplayable(name: string): boolean {
  if (PER_EXCHANGE.has(name)) return false;
  for (const family of PER_EXCHANGE_FAMILIES) if (name.startsWith(family)) return false;
  return !endsWithOneOf(CREDENTIALS, name) || endsWithOneOf(NO_CREDENTIALS, name);
}

/** A loop, because some() costs each field of each response a closure. */
function endsWithOneOf(ends: readonly string[], name: string): boolean {
  for (const end of ends) if (name.endsWith(end)) return true;
  return false;
}

/** Which of the handler's replayable fields are stored: all, or those that the user selected. */
export type ReplayHeaders = 'all' | ReadonlySet<string>;

/** The fields that changed since before the handler ran, and the route's `@Header` fields, which Nest sets earlier. */
export function addedHeaders(
  before: OutgoingHttpHeaders,
  after: OutgoingHttpHeaders,
  routeHeaders: ReadonlySet<string>,
  chosen: ReplayHeaders,
  never: ReadonlySet<string>,
): OutgoingHttpHeaders {
  const added: OutgoingHttpHeaders = {};
  for (const name of Object.keys(after)) {
    const value = after[name];
    const isOwn = !isSame(value, before[name]) || routeHeaders.has(name);
    const isChosen = (chosen === 'all' || chosen.has(name)) && !never.has(name);
    if (isOwn && isReplayable(name) && isChosen) {
      added[name] = asText(value);
    }
  }
  return added;
}

type FieldValue = OutgoingHttpHeaders[string];

function isSame(a: FieldValue, b: FieldValue): boolean {
  if (!Array.isArray(a) || !Array.isArray(b)) return a === b;
  return a.length === b.length && a.every((line, i) => line === b[i]);
}

/** As sent: Node converts any value to a string, JSON does not. */
function asText(value: unknown): string | string[] {
  return Array.isArray(value) ? value.map(String) : String(value);
}
