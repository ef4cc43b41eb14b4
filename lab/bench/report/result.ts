import type { Factors, Measurement } from '../measuring/interleave.js';
import type { Spread } from '../measuring/statistics.js';
import type { Findings } from '../parts/part.js';

/** What a part has found, and all that one has to know of where it is from. */
export interface PartResult extends Findings {
  readonly part: string;
  /** The command that repeats the run. */
  readonly command: string;
  /** ISO 8601. */
  readonly date: string;
  /** How long the part took. */
  readonly seconds: number;
  readonly machine: Machine;
}

export interface Machine {
  /** The model of its processor. */
  readonly processor: string;
  readonly cores: number;
  /** What else it did in the second before the part began: the share of its cores' time that was not idle. */
  readonly busyBefore: number;
}

/** The results there are, by the names of their parts. */
export type Results = ReadonlyMap<string, PartResult>;

/** The measurement of one entrant under these conditions, if there is one. */
export function find(
  { measurements }: Findings,
  entrant: string,
  factors: Factors,
): Measurement | undefined {
  return measurements.find(
    (candidate) =>
      candidate.entrant === entrant &&
      Object.entries(factors).every(([name, value]) => candidate.factors[name] === value),
  );
}

export function metric(measurement: Measurement | undefined, name: string): Spread | undefined {
  return measurement?.metrics[name];
}
