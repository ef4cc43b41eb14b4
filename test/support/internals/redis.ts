export { RedisIdempotencyStore } from '../../../lib/stores/redis/redis-idempotency-store.js';
export { openConnection } from '../../../lib/stores/redis/ioredis/own-connection.js';
export { COMMON, OWN } from '../../../lib/stores/redis/ioredis/redis-store-options.js';
export {
  loadScripts,
  type LuaScript,
  type LuaScripts,
} from '../../../lib/stores/redis/scripts/lua-scripts.js';
