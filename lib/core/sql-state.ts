/** Where libraries put the driver's own error. */
const CAUSES = ['cause', 'driverError', 'originalError'] as const;
const DEEPEST = 5;

/** Whether `error`, or what it was caused by, has one of the SQLSTATEs as its `code`. */
export function hasSqlState(error: unknown, states: ReadonlySet<string>, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > DEEPEST) return false;
  if ('code' in error && typeof error.code === 'string' && states.has(error.code)) return true;
  const fields = error as Partial<Record<(typeof CAUSES)[number], unknown>>;
  return CAUSES.some((name) => hasSqlState(fields[name], states, depth + 1));
}
