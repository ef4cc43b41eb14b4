export function programsFor(closure: readonly string[]): string[];
