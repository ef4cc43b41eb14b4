import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

const PAUSE_MS = 10;

/** The server forgets all scripts, over and over. */
export const scriptFlush: Fault = {
  topologies: ['single', 'sentinel', 'cluster'],
  tolerates: () => ({}),
  start({ topology }) {
    let flushes = 0;
    const stop = repeatedly(
      () => PAUSE_MS,
      async () => {
        await topology.command!('SCRIPT', 'FLUSH', 'SYNC');
        flushes += 1;
      },
    );
    return { figures: () => ({ 'SCRIPT FLUSH': flushes }), injections: () => flushes, stop };
  },
};
