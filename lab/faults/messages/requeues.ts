import type { WireDelivery } from './wire/wire-log.js';

const SECOND_MS = 1_000;

/** How often a message was requeued within one second, at the most, and the keys of those with more than `limit` times. */
export function requeuesPerSecond(
  requeued: readonly WireDelivery[],
  limit: number,
): { readonly most: number; readonly hot: readonly string[] } {
  const ends = new Map<string, { readonly key: string; readonly times: number[] }>();
  for (const { key, copy, endedAt } of requeued) {
    const known = ends.get(copy);
    if (known === undefined) ends.set(copy, { key, times: [endedAt] });
    else known.times.push(endedAt);
  }
  const counts = [...ends.values()].map(({ key, times }) => ({
    key,
    count: mostWithin(
      times.sort((a, b) => a - b),
      SECOND_MS,
    ),
  }));
  return {
    most: Math.max(0, ...counts.map(({ count }) => count)),
    hot: counts.filter(({ count }) => count > limit).map(({ key }) => key),
  };
}

function mostWithin(sorted: readonly number[], ms: number): number {
  let most = 0;
  let first = 0;
  sorted.forEach((time, last) => {
    while (time - sorted[first]! >= ms) first += 1;
    most = Math.max(most, last - first + 1);
  });
  return most;
}
