export type { RedisClient } from './redis-client.js';
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
} from './redis-store-options.js';
