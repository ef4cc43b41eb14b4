import { register } from 'node:module';
import type * as Episode from '../episode.js';
import type * as Shrink from '../shrink.js';
import type * as Simulate from '../simulate.js';
import { MISTAKES } from './index.js';

type Simulation = typeof Episode & typeof Shrink & typeof Simulate;

let isRegistered = false;

/** The simulation of a library with this mistake, beside the simulation of the library as it is. */
export async function simulationWith(mistake: string): Promise<Simulation> {
  if (!isRegistered) register('./plant-hooks.mjs', import.meta.url, { data: MISTAKES });
  isRegistered = true;
  const index = MISTAKES.findIndex((each) => each.mistake === mistake);
  if (index < 0) throw new Error(`There is no mistake "${mistake}".`);
  const load = async (name: string) => (await import(`../${name}.js?mistake=${index}`)) as object;
  const parts = await Promise.all(['episode', 'shrink', 'simulate'].map(load));
  return Object.assign({}, ...parts) as Simulation;
}
