import { checkFunction, checkInteger, checkNames, within } from '../../core/util/option-checks.js';

export interface MemoryStoreOptions {
  /**
   * How many records there may be. At the bound `begin` is refused with `StoreUnavailableError` for every
   * key that has no record yet, because forgetting a live record would let its operation run again. The
   * outcome of an operation that has run is stored in any case.
   *
   * @defaultValue 100 000, some 50 MB of records and as much again as the outcomes' bodies take
   */
  readonly maxRecords?: number | undefined;
  /**
   * The store's clock: milliseconds since the epoch.
   *
   * @defaultValue `Date.now`
   */
  readonly now?: (() => number) | undefined;
}

/** The options with their defaults in place. */
export interface ResolvedMemoryStoreOptions {
  readonly maxRecords: number;
  readonly now: () => number;
}

const OPTION_NAMES = new Set(['maxRecords', 'now']);

/** @throws `IdempotencyOptionsError` on a value out of its range. */
export function resolveMemoryStoreOptions(options: MemoryStoreOptions): ResolvedMemoryStoreOptions {
  checkNames('memoryStore', options, OPTION_NAMES);
  const { maxRecords = 100_000, now = Date.now } = options;
  within('memoryStore', 'memoryStore', () => {
    checkInteger('maxRecords', maxRecords, 1, Number.MAX_SAFE_INTEGER);
    checkFunction('now', now);
  });
  return { maxRecords, now };
}
