export function closureOf(files: readonly string[], root: string): string[];
