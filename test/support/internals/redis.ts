export { RedisIdempotencyStore } from '../../../lib/stores/redis/redis-idempotency-store.js';
export { ioredisLink, ownLink } from '../../../lib/stores/redis/ioredis/ioredis-link.js';
export { openConnection } from '../../../lib/stores/redis/ioredis/own-connection.js';
export { JOURNAL as REDIS_JOURNAL } from '../../../lib/stores/redis/redis-journal.js';
export {
  nodeRedisLink,
  ownLink as ownNodeRedisLink,
} from '../../../lib/stores/redis/node-redis/node-redis-link.js';
export { openConnection as openNodeRedis } from '../../../lib/stores/redis/node-redis/own-connection.js';
export { NODE_REDIS_OWN } from '../../../lib/stores/redis/node-redis/node-redis-store.js';
export { glideLink } from '../../../lib/stores/redis/valkey-glide/glide-link.js';
export { GLIDE_OWN } from '../../../lib/stores/redis/valkey-glide/glide-store.js';
export { COMMON, OWN } from '../../../lib/stores/redis/redis-store-options.js';
export {
  LARGEST_IN_SCRIPTS,
  loadScripts,
  type LuaScript,
  type LuaScripts,
} from '../../../lib/stores/redis/scripts/lua-scripts.js';
export type {
  LinkEvent,
  Redirection,
  RedisArgument,
  RedisLink,
  ReplyReceiver,
  Subscriber,
  RequiredReplicas,
} from '../../../lib/stores/redis/link/redis-link.js';
export { guarded } from '../../../lib/stores/redis/link/guarded-listener.js';
export { ReplyOrder, type OrderedConnection } from '../../../lib/stores/redis/link/reply-order.js';
export {
  failureOfClient,
  failureOfReply,
  NotSentError,
  TooFewReplicasError,
  type LinkFailure,
} from '../../../lib/stores/redis/link/send-failure.js';
