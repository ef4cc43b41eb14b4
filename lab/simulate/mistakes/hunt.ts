/**
 * Looks for one mistake: simulates episodes until one comes to an objection that the library as it is does not come to,
 * and makes that one smaller.
 *
 * Arguments: the mistake, the seed, and how many requests at most. Writes a {@link Catch} as JSON.
 */
import { runEpisode } from '../episode.js';
import { episodeSeeds, planOf, type Plan } from '../plan.js';
import { simulationWith } from './planted.js';

export interface Catch {
  readonly requests: number;
  readonly cpuSeconds: number;
  readonly found?: { readonly objection: string; readonly plan: Plan };
}

/** Episodes that are tried to make one smaller. */
const TRIES = 60;

const [mistake = '', seed = '1', most = '200000'] = process.argv.slice(2);
const planted = await simulationWith(mistake);
const caught = await hunt();
const { user, system } = process.cpuUsage();
const whole: Catch = { ...caught, cpuSeconds: (user + system) / 1e6 };
process.stdout.write(`${JSON.stringify(whole)}\n`, () => process.exit());

async function hunt(): Promise<Omit<Catch, 'cpuSeconds'>> {
  let requests = 0;
  for (const episode of episodeSeeds(Number(seed))) {
    if (requests >= Number(most)) break;
    const result = await planted.runEpisode(planOf(episode));
    requests += result.requests;
    if (result.objections.length === 0) continue;
    for (const { plan, objections } of [await planted.shrink(result, TRIES), result]) {
      const objection = objections[0]?.split('\n')[0];
      const isHarmless = (await runEpisode(plan)).objections.length === 0;
      if (objection !== undefined && isHarmless) return { requests, found: { objection, plan } };
    }
  }
  return { requests };
}
