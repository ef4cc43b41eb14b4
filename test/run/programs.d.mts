export const NEEDED_BY: Readonly<Record<string, readonly string[]>>;
export function programsFor(closure: readonly string[]): string[];
