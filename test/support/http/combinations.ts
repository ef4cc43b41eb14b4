import { randomUUID } from 'node:crypto';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import type { SharedServer } from '../servers/shared/kinds.js';
import { isTestAll } from '../jest/test-all.js';
import { useRedis } from '../redis/use-redis.js';

export type Platform = 'express' | 'fastify';
export type StoreKind = 'memory' | 'redis';

export const platforms: readonly Platform[] = ['express', 'fastify'];

/**
 * Each platform on one store; `npm run test:all` has the other pairing. No code depends on both a platform
 * and a store.
 */
export const combinations: readonly { platform: Platform; store: StoreKind }[] = isTestAll
  ? [
      { platform: 'express', store: 'redis' },
      { platform: 'fastify', store: 'memory' },
    ]
  : [
      { platform: 'express', store: 'memory' },
      { platform: 'fastify', store: 'redis' },
    ];

export interface TestStores {
  /** An empty store. */
  fresh(kind: StoreKind): IdempotencyStore;
  /** The server behind the Redis stores of this file. */
  readonly redis: SharedServer;
}

/** In memory, and on a redis-server for the whole test file. */
export function useStores(): TestStores {
  const redis = useRedis();
  return {
    fresh: (kind) =>
      kind === 'memory' ? memoryStore() : redisStore({ url: redis.url, keyPrefix: randomUUID() }),
    redis,
  };
}
