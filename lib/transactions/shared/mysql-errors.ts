import { layersOf } from './sql-state.js';

/**
 * Whether `error`, or an error within that of a library, is the server's, with one of these numbers.
 * @param numbers - `undefined`: any.
 */
export function hasErrorNumber(error: unknown, numbers: ReadonlySet<unknown> | undefined): boolean {
  for (const { errno, sqlState } of layersOf(error)) {
    if (typeof errno !== 'number' || typeof sqlState !== 'string') continue;
    if (numbers === undefined || numbers.has(errno)) return true;
  }
  return false;
}
