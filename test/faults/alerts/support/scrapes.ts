import type { InputSeries } from '../../../support/prometheus/promtool.js';

/** What Prometheus adds to the series of a target. */
export const JOB = 'payments';

/** The text of each target, by its name. */
export type Round = ReadonlyMap<string, string>;

/** The target, and what it says at /metrics. */
export interface Target {
  readonly name: string;
  readonly url: string;
  readonly isRunning: boolean;
}

/** Scrapes all targets that run. */
export async function scrape(targets: Iterable<Target>): Promise<Round> {
  const running = [...targets].filter(({ isRunning }) => isRunning);
  return new Map(
    await Promise.all(
      running.map(async ({ name, url }) => {
        const response = await fetch(`${url}/metrics`);
        if (!response.ok) throw new Error(`${name}: ${response.status}`);
        return [name, await response.text()] as const;
      }),
    ),
  );
}

/**
 * The series of scrapes as promtool reads them. What a scrape found stays until the next one; a target that is gone
 * ends its series.
 *
 * @param lasting - how many intervals each round lasts.
 */
export function seriesOf(rounds: readonly Round[], lasting: readonly number[]): InputSeries {
  const parsed = rounds.map(samplesIn);
  const names = new Set(parsed.flatMap((samples) => [...samples.keys()]));
  const valuesOf = (name: string) =>
    parsed.flatMap((samples, index) => {
      const value = samples.get(name);
      const length = lasting[index]!;
      if (value !== undefined) return new Array<string>(length).fill(value);
      const hasEnded = parsed[index - 1]?.has(name) === true;
      return [hasEnded ? 'stale' : '_', ...new Array<string>(length - 1).fill('_')];
    });
  return Object.fromEntries([...names].map((name) => [name, valuesOf(name).join(' ')]));
}

/** By series, with the labels of their target. */
function samplesIn(round: Round): ReadonlyMap<string, string> {
  return new Map([...round].flatMap(([instance, text]) => samplesOf(text, instance)));
}

/** The samples in the text format. */
function samplesOf(text: string, instance: string): (readonly [string, string])[] {
  const target = `job="${JOB}",instance="${instance}"`;
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, metric, labels, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (metric === undefined) throw new Error(`This is not a sample: ${line}`);
      return [`${metric}{${labels ? `${labels},` : ''}${target}}`, value!] as const;
    });
}

/** The value of one series of a target; 0 if it has none. */
export function valueIn(round: Round, name: string, metric: string, ...labels: string[]): number {
  const found = samplesOf(round.get(name) ?? '', name).filter(
    ([series]) =>
      series.startsWith(`${metric}{`) && labels.every((label) => series.includes(label)),
  );
  return found.reduce((sum, [, value]) => sum + Number(value), 0);
}
