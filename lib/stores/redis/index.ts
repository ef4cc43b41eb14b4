export { redisAudit, type AuditClient, type RedisAuditOptions } from './redis-audit.js';
export type { RedisClient, RedisConnectionOptions } from './ioredis/client-types.js';
export type { RedisJournalOptions } from './redis-journal.js';
export { RedisIdempotencyStore } from './redis-idempotency-store.js';
export { redisStore } from './redis-store.js';
export type {
  OwnConnectionOptions,
  RedisStoreOptions,
  UserClientOptions,
  WaitReplicas,
} from './redis-store-options.js';
