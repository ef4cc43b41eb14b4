import type { CallSettings } from './options.js';

/** Whether a response that is not a replay is final: a retry with the same key would get no other one. */
export function isFinal(
  status: number,
  problemCode: string | undefined,
  choices: Pick<CallSettings, 'retryServerErrors' | 'retryThrottled'>,
): boolean {
  if (problemCode === 'idempotency_in_progress') return false;
  switch (status) {
    // "Network authentication required": never of the server that was asked.
    case 511:
    case 408:
    case 503:
      return false;
    case 425:
    case 429:
      return !choices.retryThrottled;
    // "Not implemented" and "HTTP version not supported" are permanent.
    case 501:
    case 505:
      return true;
    default:
      return status < 500 || !choices.retryServerErrors;
  }
}

/**
 * Exponential backoff with full jitter, so that clients that failed together do not retry together.
 * @param tries - requests already sent, from 1.
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function fullJitterMs(
  tries: number,
  { backoffBase, backoffCap, random }: Pick<CallSettings, 'backoffBase' | 'backoffCap' | 'random'>,
): number {
  return random() * Math.min(backoffCap, backoffBase * 2 ** (tries - 1));
}

/** The three forms of an HTTP-date begin with the day's name (RFC 9110 §5.6.7). */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

/**
 * `Retry-After` in milliseconds (RFC 9110 §10.2.3); `undefined` if it is absent or invalid. A date is compared with the
 * server's own `Date`, if that is valid: the client's clock may be wrong by hours.
 */
export function retryAfterMs(headers: Headers, now = Date.now()): number | undefined {
  const value = headers.get('retry-after');
  if (value === null) return undefined;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const until = httpDate(value);
  if (until === undefined) return undefined;
  return Math.max(0, until - (httpDate(headers.get('date') ?? '') ?? now));
}

function httpDate(value: string): number | undefined {
  if (!HTTP_DATE.test(value)) return undefined;
  // The asctime form is in GMT without saying so.
  const time = Date.parse(value.endsWith('GMT') ? value : `${value} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
