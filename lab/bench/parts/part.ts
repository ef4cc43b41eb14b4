import type { ContenderId } from '../http/contenders.js';
import type { Measurement, Rounds } from '../measuring/interleave.js';

export type Profile = 'quick' | 'default';

/** What a part needs to know to run. */
export interface PartContext {
  readonly profile: Profile;
  /** In place of the part's own number. */
  readonly rounds?: number | undefined;
  /** Leaves out what no verdict of the budget rests on. */
  readonly isJudgedOnly: boolean;
  /** The applications to measure, where not all. */
  readonly contenders?: readonly ContenderId[] | undefined;
  /** Folder of the built library: package.json, dist, lua, sql. */
  readonly library: string;
  readonly onProgress: (text: string) => void;
}

/** What a part has found. */
export interface Findings {
  readonly measurements: readonly Measurement[];
  /** How often and how long each entrant ran. */
  readonly rounds: Rounds;
  /** Versions of what has run besides Node and the library, by name. */
  readonly versions: Readonly<Record<string, string>>;
}

export interface Part {
  readonly name: string;
  /** Whether it needs what lab/bench/package.json names. */
  readonly needsPeers: boolean;
  /** Whether verdicts of the budget rest on it. */
  readonly isJudged?: boolean;
  readonly run: (context: PartContext) => Promise<Findings>;
}

export function roundsOf(
  { profile, rounds }: PartContext,
  own: Readonly<Record<Profile, Rounds>>,
): Rounds {
  return rounds === undefined ? own[profile] : { ...own[profile], rounds };
}

/** What no verdict rests on runs in every round of so many. */
const SELDOM = 4;

/** See `Entrant.every`; 0 where it is left out. */
export function everyOf(
  { isJudgedOnly }: Pick<PartContext, 'isJudgedOnly'>,
  { rounds }: Rounds,
  isJudged: boolean,
): number {
  if (isJudged) return 1;
  return isJudgedOnly ? 0 : Math.min(SELDOM, rounds);
}
