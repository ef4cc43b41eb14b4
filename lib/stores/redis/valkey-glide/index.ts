export type { ValkeyGlideClient } from './client-types.js';
export { glideStore, type GlideStoreOptions } from './glide-store.js';
export { RedisIdempotencyStore } from '../redis-idempotency-store.js';
export type { RedisJournalOptions } from '../redis-journal.js';
export type { CommonOptions as RedisCommonOptions, WaitReplicas } from '../redis-store-options.js';
