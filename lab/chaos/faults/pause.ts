import { setTimeout as delay } from 'node:timers/promises';
import type { EventLine } from '../../faults/worker/lines.js';
import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/**
 * Workers stand still (SIGSTOP) for longer than a lease, with many attempts under way, and then go on.
 * Each injection is an attempt whose lease ran out meanwhile; a pause, where effect and record are one transaction.
 */
export const pause: Fault = {
  defaults: { leaseMs: 600, effectMs: 300, keysAtOnce: 300 },
  tolerates: () => ({
    extraExecutions: 'reported to both',
    // Who is paused in the middle of begin has no lease left to run with.
    otherResponses: ['503 idempotency_store_unavailable'],
  }),
  start({ plan: { leaseMs, transactional }, pool, lab, random }) {
    let pauses = 0;
    let outlived = 0;
    const stop = repeatedly(
      () => random.integer(leaseMs / 2, leaseMs),
      async () => {
        const slot = random.integer(0, pool.size - 1);
        if (!pool.isUp(slot)) return;
        pauses += 1;
        pool.stop(slot);
        await delay(leaseMs * (1.5 + random.fraction()));
        pool.continue(slot);
        outlived = outlivedLeases(lab.events());
      },
    );
    // The lock on the record is a lease that a pause does not outlive.
    const isLock = transactional;
    return {
      figures: () => ({ SIGSTOP: pauses, ...(!isLock && { 'leases outlived': outlived }) }),
      injections: () => (isLock ? pauses : outlived),
      async stop() {
        await stop();
        outlived = outlivedLeases(lab.events());
      },
    };
  },
};

function outlivedLeases(events: readonly EventLine[]): number {
  const attempts = new Set<string>();
  for (const event of events) {
    if (event.type === 'lease_lost') attempts.add(`${event.recordKey} ${event.fence}`);
  }
  return attempts.size;
}
