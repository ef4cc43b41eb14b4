/** Replays what found each mistake, with it and without it. Writes a {@link Replay} per line, as JSON. */
import { runEpisode, type EpisodeResult } from '../episode.js';
import { recorded } from './recorded.js';
import { simulationWith } from './planted.js';

export interface Replay {
  readonly mistake: string;
  readonly withMistake: readonly string[];
  readonly without: readonly string[];
}

for (const { mistake, plan } of recorded()) {
  const planted = await simulationWith(mistake);
  const replay: Replay = {
    mistake,
    withMistake: firstLines(await planted.runEpisode(plan)),
    without: firstLines(await runEpisode(plan)),
  };
  console.log(JSON.stringify(replay));
}
const { user, system } = process.cpuUsage();
console.error(`${recorded().length} mistakes were replayed in ${(user + system) / 1e6} s of CPU.`);
process.exit();

/** The others are a stack. */
function firstLines({ objections }: EpisodeResult): string[] {
  return objections.map((objection) => objection.split('\n')[0]!);
}
