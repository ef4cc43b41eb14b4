export type { RedisClient } from './ioredis/client-types.js';
export {
  RedisIdempotencyStore,
  type RedisIdempotencyStoreOptions,
} from './redis-idempotency-store.js';
export { redisStore } from './redis-store.js';
export type {
  OwnConnectionOptions,
  RedisConnectionOptions,
  RedisStoreOptions,
  UserClientOptions,
  WaitReplicas,
} from './ioredis/redis-store-options.js';
