import { setTimeout as delay } from 'node:timers/promises';
import { UNAVAILABLE } from '../../faults/expectations.js';
import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/**
 * One worker's way to the store swallows everything, for longer than a lease and than an answer waits for
 * its outcome to be stored: what `storeErrors.whenNotSaved` decides about. Each injection is such a time.
 */
export const partition: Fault = {
  topologies: ['single', 'postgres'],
  defaults: {
    leaseMs: 1_000,
    effectMs: 200,
    keysAtOnce: 100,
    saveTimeoutMs: 1_000,
    commandTimeoutMs: 500,
  },
  tolerates: ({ onSaveFailure }) => ({
    extraExecutions: 'reported to either',
    differentSuccesses: onSaveFailure === 'respond',
    outages: true,
    otherResponses: UNAVAILABLE,
  }),
  start({ plan: { leaseMs, saveTimeoutMs }, topology: { ways }, random }) {
    let partitions = 0;
    const stop = repeatedly(
      () => random.integer(500, 1_000),
      async () => {
        const way = random.pick(ways);
        partitions += 1;
        way.swallowEverything();
        await delay(leaseMs + saveTimeoutMs + random.integer(0, leaseMs));
        way.heal();
      },
    );
    return { figures: () => ({ partitions }), injections: () => partitions, stop };
  },
};
