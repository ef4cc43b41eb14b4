import { checkRedisStoreOptions } from './check-redis-store-options.js';
import { openConnection } from './own-connection.js';
import { RedisIdempotencyStore } from './redis-idempotency-store.js';
import type { RedisStoreOptions } from './redis-store-options.js';

/**
 * Keeps records in Redis ≥ 6.2 or Valkey: one server, Sentinel or Cluster.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: redisStore({ url: 'redis://localhost:6379' }) })
 * IdempotencyModule.forRoot({ store: redisStore({ client: new Cluster(nodes) }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option cannot work, or ioredis is not installed.
 */
export function redisStore(options: RedisStoreOptions): RedisIdempotencyStore {
  checkRedisStoreOptions({ ...options });
  const { client, keyPrefix, push, waitReplicas } = options;
  const common = { keyPrefix, push, waitReplicas };
  if (client !== undefined) return new RedisIdempotencyStore({ ...common, client });
  const connection = openConnection(options);
  return new RedisIdempotencyStore({
    ...common,
    client: connection.client,
    ownConnection: connection,
  });
}
