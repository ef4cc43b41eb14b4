import { cluster } from './cluster.js';
import { postgres } from './postgres.js';
import { sentinel } from './sentinel.js';
import { single } from './single.js';
import type { Topology } from './topology.js';

/** Each name can be given as `--topology`. */
export const topologies: ReadonlyMap<string, Topology> = new Map([
  ['single', single],
  ['sentinel', sentinel],
  ['cluster', cluster],
  ['postgres', postgres],
]);
