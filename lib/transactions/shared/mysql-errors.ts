import { layersOf } from './sql-state.js';

/**
 * Whether `error`, or an error within that of a library, is the server's, with one of these numbers.
 * @param numbers - `undefined`: any.
 */
export function hasErrorNumber(error: unknown, numbers: ReadonlySet<unknown> | undefined): boolean {
  for (const { errno, sqlState, originalCode } of layersOf(error)) {
    const isServers = typeof errno === 'number' && typeof sqlState === 'string';
    // Prisma keeps the number as text.
    const number = isServers ? errno : NUMBER.test(String(originalCode)) ? Number(originalCode) : 0;
    if (number === 0) continue;
    if (numbers === undefined || numbers.has(number)) return true;
  }
  return false;
}

/** A SQLSTATE, which Prisma keeps there on PostgreSQL, has five characters. */
const NUMBER = /^\d{4}$/;
