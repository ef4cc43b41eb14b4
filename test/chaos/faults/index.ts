import { clientKill } from './client-kill.js';
import { failovers } from './failover.js';
import type { Fault } from './fault.js';
import { kill } from './kill.js';
import { lostReplies } from './lost-replies.js';
import { partition } from './partition.js';
import { pause } from './pause.js';
import { scriptFlush } from './script-flush.js';
import { slotMigration } from './slot-migration.js';

/** Each name can be given in `--faults`. */
export const faults: ReadonlyMap<string, Fault> = new Map([
  ['lost-replies', lostReplies],
  ['client-kill', clientKill],
  ['script-flush', scriptFlush],
  ['kill', kill],
  ['pause', pause],
  ['partition', partition],
  ['failover', failovers(2 / 3)],
  ['failover-crash', failovers(1)],
  ['failover-planned', failovers(0)],
  ['slot-migration', slotMigration],
]);
