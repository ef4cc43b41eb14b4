import { checkFunction, checkInteger, checkNames, within } from '../../core/util/option-checks.js';

export interface MemoryStoreOptions {
  /**
   * Maximum number of records. At the maximum, `begin` of a key without a record is rejected with
   * `StoreUnavailableError`: to drop a live record would let its operation run again. The outcome of an operation that
   * has run is always stored.
   * @defaultValue 100 000, about 50 MB plus the outcomes' bodies
   */
  readonly maxRecords?: number | undefined;
  /** The store's clock: milliseconds since the epoch. @defaultValue `Date.now` */
  readonly now?: (() => number) | undefined;
}

export interface ResolvedMemoryStoreOptions {
  readonly maxRecords: number;
  readonly now: () => number;
}

const OPTION_NAMES = new Set(['maxRecords', 'now']);

export function resolveMemoryStoreOptions(options: MemoryStoreOptions): ResolvedMemoryStoreOptions {
  checkNames('memoryStore', options, OPTION_NAMES);
  const { maxRecords = 100_000, now = Date.now } = options;
  within('memoryStore', 'memoryStore', () => {
    checkInteger('maxRecords', maxRecords, 1, Number.MAX_SAFE_INTEGER);
    checkFunction('now', now);
  });
  return { maxRecords, now };
}
