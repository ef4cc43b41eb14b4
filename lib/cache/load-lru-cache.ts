import { IdempotencyOptionsError } from '../core/errors.js';
import { missingPeer } from '../core/missing-peer.js';

/** What is used of lru-cache: a structure, so that no declaration needs the package. */
export interface LruCache<Value extends object> {
  /** The sizes of all that is in it, added up. */
  readonly calculatedSize: number;
  /** How many values are in it. */
  readonly size: number;
  get(key: string): Value | undefined;
  /** Without counting as a use. */
  peek(key: string): Value | undefined;
  set(key: string, value: Value, options: { readonly size: number }): unknown;
  delete(key: string): boolean;
  clear(): void;
  /** The keys, that which was not used for the longest first. */
  rkeys(): Iterable<string>;
}

export type LruCacheConstructor = new <Value extends object>(options: {
  readonly maxSize: number;
}) => LruCache<Value>;

/** @throws {@link IdempotencyOptionsError} when no lru-cache that will do is installed. */
export async function loadLruCache(): Promise<LruCacheConstructor> {
  const { LRUCache } = await importLruCache();
  if (LRUCache === undefined) {
    // Old ones lie in many a node_modules, as a dependency of something else.
    throw new IdempotencyOptionsError(
      'The option "cache" needs lru-cache 11, and another version is found: npm install lru-cache@11',
    );
  }
  return LRUCache;
}

async function importLruCache(): Promise<{ readonly LRUCache?: LruCacheConstructor }> {
  try {
    return await import('lru-cache');
  } catch (error) {
    throw missingPeer(error, 'lru-cache', 'The option "cache" needs');
  }
}
