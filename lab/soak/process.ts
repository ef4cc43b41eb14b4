// First of all: it tracks the signals of what is loaded after it.
import { countSignalListeners } from './noted-signals.js';
import 'reflect-metadata';
import { Redis } from 'ioredis';
import { IdempotencyEvents, IdempotencyMeter, type IdempotencyEvent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { EndsOfAttempts } from '../../test/support/engine/attempt-ends.js';
import { EventTally, numbersOf } from '../../test/support/engine/event-tally.js';
import { IdempotencyEngine } from '../../test/support/internals/core.js';
import { serve } from '../../test/support/processes/child.js';
import { readHoldings } from '../measure/growth/holdings.js';
import { LEAKS } from '../measure/growth/leaks.js';
import { sendAll } from './load.js';
import type { SoakSetup } from './setup.js';
import { faultyStore } from './faulty-store.js';
import { openWay } from './ways/open-way.js';

const setup = JSON.parse(process.env.SOAK_SETUP ?? '') as SoakSetup;
// As the store opens its own, whose listeners only it could count.
const client = new Redis(setup.redisUrl, { enableAutoPipelining: true });
const store = faultyStore(redisStore({ client }));
const way = await openWay(setup.way, { store, rabbitMqPort: setup.rabbitMqPort });

/** How often each event happened. */
const ends: Record<string, number> = {};
const attempts = new EndsOfAttempts();
const tally = new EventTally();
/** Of all events of operations. */
const transports = new Set<unknown>();
const events = way.nest.get(IdempotencyEvents, { strict: false });
if (setup.misreportsEnds === true) misreportEnds(events);
events.subscribe(
  (event) => {
    attempts.add(event);
    tally.add(event);
    if (event.operation !== undefined) transports.add(event.transport);
    const name = nameOf(event);
    ends[name] = (ends[name] ?? 0) + 1;
  },
  { replacesLog: true },
);

// Its private fields are read with their types.
const engine = way.nest.get(IdempotencyEngine, { strict: false });

/** One end in a hundred is emitted twice, and another one never. */
function misreportEnds(of: IdempotencyEvents): void {
  const emit = of.emit.bind(of);
  let ended = 0;
  of.emit = (event) => {
    if (event.type === 'ended') ended += 1;
    const place = event.type === 'ended' ? ended % 100 : undefined;
    if (place !== 50) emit(event);
    if (place === 0) emit(event);
  };
}

function nameOf(event: IdempotencyEvent): string {
  if (event.type === 'ended') return `ended: ${event.how}`;
  return event.type === 'rejected' ? event.reason : event.type;
}

const leaveBehind = () => {
  for (const leak of setup.leaks ?? []) LEAKS[leak]();
};

serve({
  /** Resolves when this many requests have completed. */
  send: async (requests: number) => {
    await sendAll(way, requests, leaveBehind);
    await way.settled?.();
  },
  sendWithoutKey: () => way.send({ kind: 'plain', key: '', amount: 1 }),
  disconnect: () => way.disconnect?.(),
  attempts: () => ({
    // A message may be delivered again after all first ends, and wait for the attempt of another copy.
    running:
      engine['services'].attempts['running'].size + engine['services'].attempts['inProgress'],
    wrongEnds: [...attempts.objections, ...attempts.unended],
    transports: [...transports],
    ends,
    counted: numbersOf(way.nest.get(IdempotencyMeter, { strict: false }).read()),
    expected: tally.numbers,
  }),
  read: async () => {
    const holdings = await readHoldings(
      () => ({
        'the process': [process],
        'the client': [client],
        "the client's socket": [client.stream],
        ...way.emitters(),
      }),
      () => ({
        'attempts of the engine': engine['services'].attempts['running'].size,
        'begins under way': engine['services'].attempts['inProgress'],
        'waiting lines': engine['duplicateWaiters']['queues'].size,
        'places in waiting lines': engine['duplicateWaiters']['waiters'],
        deadlines: engine['services'].deadlines['count'],
        'listeners of abort signals': countSignalListeners(),
      }),
    );
    await client.flushdb();
    return { ...holdings, ends };
  },
});
