import { afterAll, beforeAll } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { startRedis, type RedisServer } from '../redis-server.js';

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
  readonly redis: RedisServer;
}

/** One redis-server for the whole test file, from before its tests until after them. */
export function useStores(): TestStores {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.stop());
  return {
    fresh: (kind) =>
      kind === 'memory' ? memoryStore() : redisStore({ url: redis.url, keyPrefix: randomUUID() }),
    get redis() {
      return redis;
    },
  };
}
