/** What the pauses between tries are drawn from. */
export interface Backoff {
  readonly backoffBaseMs: number;
  readonly backoffCapMs: number;
  readonly random: () => number;
}

/**
 * Exponential backoff with full jitter: anything between nothing and the whole of the step, so that clients
 * that failed together do not come back together.
 *
 * @param tries - how many were sent already, from 1.
 * @returns milliseconds.
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function fullJitterMs(tries: number, backoff: Backoff): number {
  const { backoffBaseMs, backoffCapMs, random } = backoff;
  return random() * Math.min(backoffCapMs, backoffBaseMs * 2 ** (tries - 1));
}
