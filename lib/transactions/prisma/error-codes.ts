/** What an error of Prisma or of a driver adapter calls its code. */
const CODES = ['code', 'originalCode'] as const;
/**
 * Where the error is that has it: a model's says what Prisma makes of it (P2034), a raw statement's that it is one
 * (P2010), both with the driver's in `meta`, and COMMIT throws what the driver adapter threw.
 */
const INSIDE = ['cause', 'meta', 'driverAdapterError'] as const;
const DEEPEST = 5;

/** Whether `error`, or what is inside of it, has one of the codes: Prisma's own or SQLSTATEs. */
export function hasErrorCode(error: unknown, codes: ReadonlySet<unknown>, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > DEEPEST) return false;
  const fields = error as Readonly<Record<string, unknown>>;
  return (
    CODES.some((name) => codes.has(fields[name])) ||
    INSIDE.some((name) => hasErrorCode(fields[name], codes, depth + 1))
  );
}
