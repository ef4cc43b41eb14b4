import type { CrashPoint } from '../../faults/messages/worker/settings.js';
import type { Random } from '../../../integration/differential/random.js';
import type { MessagePlan } from './message-plan.js';

/** One trouble that is made to one consumer. */
export type Strike =
  | { readonly kind: 'kill' }
  | { readonly kind: 'crash'; readonly point: CrashPoint }
  | { readonly kind: 'close'; readonly by: 'consumer' | 'broker' | 'none' }
  | { readonly kind: 'pause'; readonly ms: number };

const CLOSERS = ['consumer', 'broker', 'none'] as const;

/** All strikes of a run, in the order in which they come. */
export function strikesOf(
  { kills, points, closes, pauses, leaseMs }: MessagePlan,
  random: Random,
): Strike[] {
  const strikes = [
    ...times(kills, (index): Strike =>
      index % 2 === 0
        ? { kind: 'kill' }
        : { kind: 'crash', point: points[((index - 1) / 2) % points.length]! },
    ),
    ...times(closes, closeOf),
    ...times(pauses, (): Strike => ({
      kind: 'pause',
      ms: Math.round(leaseMs * (1.5 + random.fraction())),
    })),
  ];
  return shuffled(strikes, random);
}

/** Alternates the ways to end a channel. */
export function closeOf(index: number): Strike {
  return { kind: 'close', by: CLOSERS[index % CLOSERS.length]! };
}

function times<Item>(count: number, make: (index: number) => Item): Item[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last -= 1) {
    const other = random.integer(0, last);
    [result[last], result[other]] = [result[other]!, result[last]!];
  }
  return result;
}
