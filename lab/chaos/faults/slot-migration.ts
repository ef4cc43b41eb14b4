import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/** Slots that have records move from node to node: no client may notice. */
export const slotMigration: Fault = {
  topologies: ['cluster'],
  tolerates: () => ({}),
  start({ topology, random }) {
    let moved = 0;
    const stop = repeatedly(
      () => random.integer(20, 100),
      async () => {
        await topology.migrateSlot!(random);
        moved += 1;
      },
    );
    return { figures: () => ({ 'slots moved': moved }), injections: () => moved, stop };
  },
};
