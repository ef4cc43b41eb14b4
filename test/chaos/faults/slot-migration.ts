import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/** Slots that have records move from node to node: no client may notice. */
export const slotMigration: Fault = {
  excuses: () => ({}),
  start({ topology, random }) {
    const { migrateSlot } = topology;
    if (migrateSlot === undefined) throw new Error('a slot needs --topology cluster');
    let moved = 0;
    const stop = repeatedly(
      () => random.integer(20, 100),
      async () => {
        await migrateSlot(random);
        moved += 1;
      },
    );
    return { figures: () => ({ 'slots moved': moved }), strikes: () => moved, stop };
  },
};
