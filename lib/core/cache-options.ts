import { checkInteger } from './option-checks.js';
import { switchedSettings } from './switched-settings.js';

/** How many outcomes a process keeps in its own memory, and for how long. */
export interface CacheOptions {
  /**
   * How much memory they take at the most, in bytes: bodies and headers, and what it takes to keep them. Those that
   * nobody has asked for the longest leave first; one that takes more than an eighth of it is not kept. 65 536 to
   * 68 719 476 736.
   * @defaultValue 67_108_864 (64 MiB)
   */
  readonly maxBytes?: number;
  /**
   * For how long the store is not asked again about a record that it has said to be finished, in milliseconds. It is
   * also for how long one that was deleted on purpose, or lost, is still answered for. The end of a record's retention comes
   * first. 1 to 86 400 000.
   * @defaultValue 60_000
   */
  readonly maxAgeMs?: number;
}

/** {@link CacheOptions} with every default filled in. */
export type ResolvedCacheOptions = Required<CacheOptions>;

/** The defaults of {@link CacheOptions}. */
export const CACHE_DEFAULTS: ResolvedCacheOptions = Object.freeze({
  maxBytes: 67_108_864,
  maxAgeMs: 60_000,
});

/**
 * @returns `undefined` where there is to be no cache.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
export function resolveCacheOptions(
  cache: boolean | CacheOptions | undefined,
): ResolvedCacheOptions | undefined {
  const resolved = switchedSettings('cache', cache, CACHE_DEFAULTS);
  if (resolved === undefined) return undefined;
  checkInteger('cache.maxBytes', resolved.maxBytes, 65_536, 68_719_476_736);
  checkInteger('cache.maxAgeMs', resolved.maxAgeMs, 1, 86_400_000);
  return Object.freeze(resolved);
}
