/** What drivers, and the libraries around them, call the SQLSTATE. */
const CODES = ['code', 'originalCode'] as const;
/** Where libraries put the driver's own error; Prisma, deep inside of `meta`. */
const INSIDE = ['cause', 'driverError', 'originalError', 'meta', 'driverAdapterError'] as const;
const DEEPEST = 5;

/** Whether `error`, or what is inside of it, has one of the SQLSTATEs, or of a library's own codes. */
export function hasSqlState(error: unknown, states: ReadonlySet<unknown>, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > DEEPEST) return false;
  const fields = error as Readonly<Record<string, unknown>>;
  return (
    CODES.some((name) => states.has(fields[name])) ||
    INSIDE.some((name) => hasSqlState(fields[name], states, depth + 1))
  );
}
