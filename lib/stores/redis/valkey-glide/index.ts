export type { ValkeyGlideClient } from './client-types.js';
export { glideStore, type GlideStoreOptions } from './glide-store.js';
export { RedisIdempotencyStore } from '../redis-idempotency-store.js';
