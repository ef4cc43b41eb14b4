import type { Measurement, Rounds } from '../measuring/interleave.js';

export type Profile = 'quick' | 'default' | 'full';

/** What a part needs to know to run. */
export interface PartContext {
  readonly profile: Profile;
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
  /** Whether it needs what test/lab/bench/package.json names. */
  readonly needsPeers: boolean;
  /** Left out unless it is asked for, or everything is. */
  readonly isOptional?: boolean;
  readonly run: (context: PartContext) => Promise<Findings>;
}
