export interface Part {
  readonly name: string;
  readonly patterns: readonly string[];
  readonly files: readonly string[];
}

/** Variables that make tests check something else, or less. */
export const NARROWING: readonly string[];

export function readParts(root: string): readonly Part[];
export function complaintsAbout(parts: readonly Part[], root: string): string[];
