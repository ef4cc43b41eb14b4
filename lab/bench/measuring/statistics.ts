/** What the rounds of one measurement gave. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  /** In the order in which they were measured; `null` of a round that it sat out. */
  readonly rounds: readonly (number | null)[];
}

/** How many times as large one measurement is as another, with its 95 % confidence interval. */
export interface Ratio {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
}

/** How often the truth may lie outside of the interval, on each side. */
const TAIL = 0.025;

export function spreadOf(rounds: readonly (number | null)[]): Spread {
  const values = rounds.filter((value) => value !== null);
  return { median: median(values), min: Math.min(...values), max: Math.max(...values), rounds };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? NaN)) / 2;
}

/**
 * The ratios of the rounds that both have, each within its round: whatever else the machine did then has hit both. The
 * estimate is their median, the interval that of Wilcoxon's signed ranks on their logarithms: a disturbed round moves
 * neither far, as it would a mean. Below six rounds no interval of ranks is sure to 95 %: then it is as wide as the
 * rounds, and without bounds after a single one.
 */
export function pairedRatio(
  numerator: readonly (number | null)[],
  denominator: readonly (number | null)[],
): Ratio {
  const ratios = numerator.flatMap((value, round) => {
    const other = denominator[round] ?? null;
    if (value === null || other === null) return [];
    // As a difference may come out: whatever is beside nothing is a multiple without bounds.
    return [other > 0 ? value / other : Infinity];
  });
  const estimate = median(ratios);
  if (ratios.length < 2) return { estimate, low: 0, high: Infinity };
  // Less than nothing has no logarithm.
  const logs = ratios.map((ratio) => Math.log(Math.max(ratio, Number.MIN_VALUE)));
  const averages = logs
    .flatMap((one, i) => logs.slice(i).map((other) => (one + other) / 2))
    .sort((one, other) => one - other);
  const outside = Math.max(0, ranksOutside(logs.length) - 1);
  return {
    estimate,
    low: Math.exp(averages[outside] ?? NaN),
    high: Math.exp(averages[averages.length - 1 - outside] ?? NaN),
  };
}

/** How many sums of signed ranks of so many differences are so small that they are seen in 2.5 % of all cases. */
function ranksOutside(count: number): number {
  // How many of the 2^count choices of signs give each sum.
  let choices: readonly number[] = [1];
  for (let rank = 1; rank <= count; rank += 1) {
    const fewer = choices;
    choices = Array.from(
      { length: fewer.length + rank },
      (_, sum) => (fewer[sum] ?? 0) + (fewer[sum - rank] ?? 0),
    );
  }
  let seen = 0;
  let sums = 0;
  while (seen + (choices[sums] ?? 0) <= TAIL * 2 ** count) {
    seen += choices[sums] ?? 0;
    sums += 1;
  }
  return sums;
}
