import { parseArgs } from 'node:util';
import { POINTS } from '../../faults/worker/mishap.js';
import { oneOf, wholeNumber } from '../../command-line.js';
import type { MessagePlan } from './message-plan.js';

export const USAGE = `npm run lab -- chaos messages [options]
  --messages N         so many messages (20000)
  --deliveries D       … published so many times, copies included (100000)
  --consumers C        consumer processes (4)
  --prefetch P         what the broker sends each of them at a time (50)
  --queue Q            quorum or classic (quorum)
  --kills K            kill -9 of a consumer, half of them at a named point (200)
  --points a,b         ${POINTS.join(', ')} (all)
  --closes C           channels closed by consumers, by the broker, by a cut connection (150)
  --pauses P           SIGSTOP of a consumer for longer than its lease (0)
  --seed S             the same seed draws the same messages, consumers and faults (drawn)
  --when-in-progress W wait or reject (wait)
  --lease-ms, --effect-ms
  --report NAME        keeps the figures in docs/measurements/figures, and shows them in the documentation`;

/** @throws Error that says what is wrong with the arguments. */
export function messagePlanOf(args: readonly string[]): MessagePlan {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      messages: text,
      deliveries: text,
      consumers: text,
      prefetch: text,
      queue: text,
      kills: text,
      points: text,
      closes: text,
      pauses: text,
      seed: text,
      'when-in-progress': text,
      'lease-ms': text,
      'effect-ms': text,
      report: text,
    },
  });
  const number = (name: keyof typeof values, fallback: number, least = 1) =>
    wholeNumber(name, values[name], fallback, least);
  const messages = number('messages', 20_000);
  return {
    messages,
    deliveries: number('deliveries', messages * 5, messages),
    consumers: number('consumers', 4),
    prefetch: number('prefetch', 50),
    queue: oneOf('queue', values.queue ?? 'quorum', ['quorum', 'classic']),
    kills: number('kills', 200, 0),
    points: (values.points?.split(',') ?? POINTS).map((name) => oneOf('points', name, POINTS)),
    closes: number('closes', 150, 0),
    pauses: number('pauses', 0, 0),
    seed: number('seed', Math.floor(Math.random() * 1_000_000), 0),
    leaseMs: number('lease-ms', 2_000, 100),
    effectMs: number('effect-ms', 10, 0),
    whenInProgress: oneOf('when-in-progress', values['when-in-progress'] ?? 'wait', [
      'wait',
      'reject',
    ]),
    report: values.report,
  };
}
