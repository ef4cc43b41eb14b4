import { randomUUID } from 'node:crypto';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import type { SharedServer } from '../shared-servers/kinds.js';
import { useRedis } from '../use-redis.js';

export type Platform = 'express' | 'fastify';
export type StoreKind = 'memory' | 'redis';

export const platforms: readonly Platform[] = ['express', 'fastify'];

/** Both platforms on both stores. */
export const combinations = platforms.flatMap((platform) =>
  (['memory', 'redis'] as const).map((store) => ({ platform, store })),
);

export interface TestStores {
  /** A store that nothing was stored in yet. */
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
