export { RedisIdempotencyStore } from '../../../../lib/stores/redis/redis-idempotency-store.js';
