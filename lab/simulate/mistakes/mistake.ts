/** A mistake as a maintainer could make it, in one file of lib. */
export interface Mistake {
  /** What is wrong: a sentence. Unique. */
  readonly mistake: string;
  /** A path from the project's root. */
  readonly file: string;
  /** A text that stands in the file exactly once, and what is there in its place. */
  readonly change: readonly [original: string, changed: string];
  /** Why no request can notice it; absent where the simulation has to find it. */
  readonly harmless?: string;
}

type Entry = readonly [mistake: string, original: string, changed: string, harmless?: string];

export function mistakesIn(file: string, ...entries: readonly Entry[]): Mistake[] {
  return entries.map(([mistake, original, changed, harmless]) => ({
    mistake,
    file,
    change: [original, changed],
    ...(harmless !== undefined && { harmless }),
  }));
}
