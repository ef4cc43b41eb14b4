export interface Part {
  readonly name: string;
  readonly patterns: readonly string[];
  readonly files: readonly string[];
}

/** Variables with which tests check something else than usual, or less. */
export const NARROWING: readonly string[];

export function readParts(root: string): readonly Part[];
export function complaintsAbout(parts: readonly Part[], root: string): string[];
