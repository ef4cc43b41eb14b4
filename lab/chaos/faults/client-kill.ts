import { setTimeout as delay } from 'node:timers/promises';
import type { Fault } from './fault.js';
import { repeatedly } from './repeatedly.js';

/** Storms of CLIENT KILL: the server cuts all connections several times in a row. */
export const clientKill: Fault = {
  topologies: ['single', 'sentinel', 'cluster'],
  tolerates: () => ({}),
  start({ topology, random }) {
    let kills = 0;
    const storm = async () => {
      for (let left = random.integer(1, 5); left > 0; left -= 1) {
        await topology.command!('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        kills += 1;
        await delay(random.integer(5, 30));
      }
    };
    const stop = repeatedly(() => random.integer(300, 900), storm);
    return { figures: () => ({ 'CLIENT KILL': kills }), injections: () => kills, stop };
  },
};
