import type { Random } from '../../../test/integration/differential/random.js';

/** Half of the copies come so close after each other that they meet the first one in progress. */
const CLOSE = 1 / 2;

/** So many of the newest messages are close. */
const NEWEST = 8;

/**
 * The numbers of the messages in the order in which they are published: each once at the least, and copies of them, up
 * to `deliveries` in all. Copies without end after that.
 */
export function* publications(
  messages: number,
  deliveries: number,
  random: Random,
): Generator<number, never> {
  let begun = 0;
  for (let position = 0; ; position += 1) {
    const left = deliveries - position;
    if (begun === 0 || random.chance((messages - begun) / left)) yield (begun += 1);
    else yield copyOf(begun, random);
  }
}

function copyOf(begun: number, random: Random): number {
  const oldest = random.chance(CLOSE) ? Math.max(1, begun - NEWEST + 1) : 1;
  return random.integer(oldest, begun);
}
