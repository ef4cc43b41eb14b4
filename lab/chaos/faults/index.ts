import { clientKill } from './client-kill.js';
import { cut } from './cut.js';
import { failovers } from './failover.js';
import type { Fault } from './fault.js';
import { kill } from './kill.js';
import { lostReplies } from './lost-replies.js';
import { partition } from './partition.js';
import { pause } from './pause.js';
import { scriptFlush } from './script-flush.js';
import { slotMigration } from './slot-migration.js';
import { terminate } from './terminate.js';

/** Each name can be given in `--faults`. */
export const faults: ReadonlyMap<string, Fault> = new Map([
  ['lost-replies', lostReplies],
  ['client-kill', clientKill],
  ['script-flush', scriptFlush],
  ['kill', kill],
  ['cut', cut],
  ['terminate', terminate],
  ['pause', pause],
  ['partition', partition],
  ['failover', failovers(2 / 3)],
  ['failover-crash', failovers(1)],
  ['failover-planned', failovers(0)],
  ['slot-migration', slotMigration],
]);
