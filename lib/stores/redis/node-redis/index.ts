export type { NodeRedisClient } from './client-types.js';
export {
  nodeRedisStore,
  type NodeRedisConnectionOptions,
  type NodeRedisOwnConnectionOptions,
  type NodeRedisStoreOptions,
  type NodeRedisUserClientOptions,
} from './node-redis-store.js';
export { RedisIdempotencyStore } from '../redis-idempotency-store.js';
export type { RedisJournalOptions } from '../redis-journal.js';
export type { WaitReplicas } from '../redis-store-options.js';
