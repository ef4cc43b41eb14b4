export interface Part {
  readonly name: string;
  readonly patterns: readonly string[];
  readonly files: readonly string[];
}

export function readParts(root: string): readonly Part[];
export function complaintsAbout(parts: readonly Part[], root: string): string[];
