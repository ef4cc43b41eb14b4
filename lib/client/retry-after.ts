/** The three forms of an HTTP-date begin with the day's name (RFC 9110 §5.6.7). */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

/**
 * How long the answer asks to wait, in milliseconds (RFC 9110 §10.2.3); `undefined` where it does not ask, or
 * not legibly.
 *
 * A date is compared with the server's own clock, as its `Date` tells it, where that can be read: the client's
 * may be wrong by hours.
 *
 * @param now - the client's clock, in milliseconds of Unix time.
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
