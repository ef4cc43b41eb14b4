import { spreadOf, type Spread } from './statistics.js';

/** The result of one slot of one entrant: `perSecond`, `cpuUs`, … */
export type Sample = Readonly<Record<string, number>>;

export type Factors = Readonly<Record<string, string | number>>;

/** A contender that alternates with others. */
export interface Entrant {
  readonly name: string;
  /** @param ms - how long to go on. */
  readonly run: (ms: number) => Promise<Sample>;
  /** Warms up for a slot that counts; the same as `run` where it is left out. */
  readonly settle?: (ms: number) => Promise<unknown>;
  /** Runs in every round of so many; in each where it is left out. */
  readonly every?: number;
}

/** Entrants that do the same under the same conditions, and are compared with each other only. */
export interface Group {
  readonly factors: Factors;
  readonly entrants: readonly Entrant[];
}

export interface Measurement {
  readonly factors: Factors;
  readonly entrant: string;
  readonly metrics: Readonly<Record<string, Spread>>;
}

export interface Rounds {
  readonly rounds: number;
  /** How long a slot takes. */
  readonly roundMs: number;
  /** The same, of the round that warms up and does not count. */
  readonly warmUpMs: number;
  /**
   * How long each slot warms up before it counts: meanwhile the process has returned memory, and the caches hold the data
   * of others.
   */
  readonly settleMs?: number;
}

/**
 * Each round goes through all groups, and in each group through all entrants, in another order every time. A time of
 * trouble on the machine so hits one round of everything, and not all rounds of one.
 */
export async function interleave(
  groups: readonly Group[],
  { rounds, roundMs, warmUpMs, settleMs = 0 }: Rounds,
  onRound: (round: number) => void = () => undefined,
): Promise<Measurement[]> {
  const samples = groups.map(({ entrants }) => entrants.map((): (Sample | null)[] => []));
  for (let round = 0; round <= rounds; round += 1) {
    onRound(round);
    for (const g of orderOf(groups.length, round)) {
      const { entrants } = groups[g]!;
      for (const e of orderOf(entrants.length, round)) {
        const entrant = entrants[e]!;
        if (round === 0) {
          await entrant.run(warmUpMs);
          continue;
        }
        if (round % (entrant.every ?? 1) !== 0) {
          samples[g]![e]!.push(null);
          continue;
        }
        if (settleMs > 0) await (entrant.settle ?? entrant.run)(settleMs);
        samples[g]![e]!.push(await entrant.run(roundMs));
      }
    }
  }
  return groups.flatMap(({ factors, entrants }, g) =>
    entrants.map(({ name }, e) => ({
      factors,
      entrant: name,
      metrics: spreadsOf(samples[g]![e]!),
    })),
  );
}

/** Each round another order: each comes first and last as often as the others, and after each of them. */
export function orderOf(count: number, round: number): number[] {
  const first = round >> 1;
  const order = Array.from({ length: count }, (_, i) => (i + first) % count);
  return round % 2 === 0 ? order : order.reverse();
}

export function spreadsOf(samples: readonly (Sample | null)[]): Record<string, Spread> {
  const names = Object.keys(samples.find((sample) => sample !== null) ?? {});
  return Object.fromEntries(
    names.map((name) => [name, spreadOf(samples.map((sample) => sample && (sample[name] ?? NaN)))]),
  );
}

/** The rounds of several runs, as if it had been one. */
export function together(runs: readonly (readonly Measurement[])[]): Measurement[] {
  const [first = [], ...others] = runs;
  return first.map((measurement) => {
    const { factors, entrant, metrics } = measurement;
    const same = others.map((run) =>
      run.find((other) => other.entrant === entrant && isSame(other, measurement)),
    );
    const names = Object.entries(metrics).map(([name, { rounds }]) => {
      const further = same.flatMap((other) => other?.metrics[name]?.rounds ?? []);
      return [name, spreadOf([...rounds, ...further])];
    });
    return { factors, entrant, metrics: Object.fromEntries(names) as Measurement['metrics'] };
  });
}

/** Whether both were measured under the same conditions. */
export function isSame({ factors: one }: Measurement, { factors: other }: Measurement): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
