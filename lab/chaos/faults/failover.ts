import { UNAVAILABLE } from '../../faults/expectations.js';
import type { FailoverKind } from '../topologies/topology.js';
import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/**
 * Primaries hand over to a replica or die, one failover after the other. Replication is asynchronous: what
 * was lost in flight has to be reported, what was completed and lost is counted.
 *
 * @param crashes - the part of them that a kill -9 brings about; the rest is planned.
 */
export const failovers = (crashes: number): Fault => ({
  topologies: ['sentinel', 'cluster'],
  defaults: { leaseMs: 5_000, effectMs: 20, keysAtOnce: 32 },
  tolerates: () => ({
    extraExecutions: 'reported to either',
    lostOutcomes: true,
    // Those of a key whose outcome was lost.
    differentSuccesses: true,
    outages: true,
    otherResponses: UNAVAILABLE,
  }),
  start({ topology, random }) {
    const done: Record<FailoverKind, number> = { planned: 0, crash: 0 };
    const stop = repeatedly(
      () => random.integer(100, 500),
      async () => {
        const kind = random.chance(crashes) ? 'crash' : 'planned';
        await topology.failover!(kind, random);
        done[kind] += 1;
      },
    );
    return {
      figures: () => ({
        failovers: done.planned + done.crash,
        'of these after kill -9': done.crash,
      }),
      injections: () => done.planned + done.crash,
      stop,
    };
  },
});
