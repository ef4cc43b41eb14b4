export type { RedisClient, RedisConnectionOptions } from './ioredis/client-types.js';
export type { WaitReplicas } from './link/redis-link.js';
export { RedisIdempotencyStore } from './redis-idempotency-store.js';
export { redisStore } from './redis-store.js';
export type {
  OwnConnectionOptions,
  RedisStoreOptions,
  UserClientOptions,
} from './redis-store-options.js';
