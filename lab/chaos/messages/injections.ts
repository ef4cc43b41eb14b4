import type { CrashPoint } from '../../faults/messages/worker/settings.js';
import type { Random } from '../../../test/integration/differential/random.js';
import type { MessagePlan } from './message-plan.js';

/** A fault that is injected into one consumer. */
export type Injection =
  | { readonly kind: 'kill' }
  | { readonly kind: 'crash'; readonly point: CrashPoint }
  | { readonly kind: 'close'; readonly by: 'consumer' | 'broker' | 'none' }
  | { readonly kind: 'pause'; readonly ms: number };

const CLOSERS = ['consumer', 'broker', 'none'] as const;

/** All injections of a run, in the order in which they come. */
export function injectionsOf(
  { kills, points, closes, pauses, leaseMs }: MessagePlan,
  random: Random,
): Injection[] {
  const injections = [
    ...times(kills, (index): Injection =>
      index % 2 === 0
        ? { kind: 'kill' }
        : { kind: 'crash', point: points[((index - 1) / 2) % points.length]! },
    ),
    ...times(closes, closeOf),
    ...times(pauses, (): Injection => ({
      kind: 'pause',
      ms: Math.round(leaseMs * (1.5 + random.fraction())),
    })),
  ];
  return shuffled(injections, random);
}

/** Alternates the ways to end a channel. */
export function closeOf(index: number): Injection {
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
