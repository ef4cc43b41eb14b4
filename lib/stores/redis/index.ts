export type { RedisClient } from './connection/client-types.js';
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
} from './connection/redis-store-options.js';
