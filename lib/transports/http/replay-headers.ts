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
  // Metadata of one message.
  'age',
  'date',
  'server',
  'server-timing',
  'via',
  // Session and authentication.
  'proxy-authenticate',
  'clear-site-data',
  'set-cookie',
  'set-cookie2',
  'www-authenticate',
  // Tracing.
  'request-id',
  'traceparent',
  'tracestate',
  'x-correlation-id',
  'x-request-id',
  'x-trace-id',
]);

/** The beginnings of further names. */
export const PER_EXCHANGE_FAMILIES: readonly string[] = [
  'access-control-',
  'ratelimit',
  'x-ratelimit-',
  'x-rate-limit-',
];

/** Whether a field may be replayed; `name` in lower case. */
export function isReplayable(name: string): boolean {
  return (
    !PER_EXCHANGE.has(name) && !PER_EXCHANGE_FAMILIES.some((family) => name.startsWith(family))
  );
}

/** Which of the handler's replayable fields are stored: all, or those that the user selected. */
export type ReplayHeaders = 'all' | ReadonlySet<string>;

/** The fields that changed since before the handler ran, and the route's `@Header` fields, which Nest sets earlier. */
export function addedHeaders(
  before: OutgoingHttpHeaders,
  after: OutgoingHttpHeaders,
  routeHeaders: ReadonlySet<string>,
  chosen: ReplayHeaders,
): OutgoingHttpHeaders {
  const added: OutgoingHttpHeaders = {};
  for (const name of Object.keys(after)) {
    const value = after[name];
    const isOwn = !isSame(value, before[name]) || routeHeaders.has(name);
    if (isOwn && isReplayable(name) && (chosen === 'all' || chosen.has(name))) {
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
