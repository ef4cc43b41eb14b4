export { RedisIdempotencyStore } from '../../../lib/stores/redis/redis-idempotency-store.js';
export { ioredisLink, ownLink } from '../../../lib/stores/redis/ioredis/ioredis-link.js';
export { openConnection } from '../../../lib/stores/redis/ioredis/own-connection.js';
export { JOURNAL as REDIS_JOURNAL } from '../../../lib/stores/redis/redis-journal.js';
export { COMMON, OWN } from '../../../lib/stores/redis/redis-store-options.js';
export {
  LARGEST_IN_SCRIPTS,
  loadScripts,
  type LuaScript,
  type LuaScripts,
} from '../../../lib/stores/redis/scripts/lua-scripts.js';
export type {
  LinkEvent,
  RedisArgument,
  RedisLink,
  ReplyReceiver,
  Subscriber,
  RequiredReplicas,
} from '../../../lib/stores/redis/link/redis-link.js';
export { ReplyOrder, type OrderedConnection } from '../../../lib/stores/redis/link/reply-order.js';
export {
  failureOfClient,
  failureOfReply,
  NotSentError,
  TooFewReplicasError,
  type LinkFailure,
} from '../../../lib/stores/redis/link/send-failure.js';
