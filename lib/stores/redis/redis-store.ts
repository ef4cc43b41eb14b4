import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { ioredisLink, ownLink } from './ioredis/ioredis-link.js';
import { openConnection } from './ioredis/own-connection.js';
import { checkConnectionOptions, type RedisStoreOptions } from './redis-store-options.js';
import { RedisIdempotencyStore } from './redis-idempotency-store.js';

/**
 * Stores records in Redis ≥ 6.2 or Valkey: one server, Sentinel or Cluster.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: redisStore({ url: 'redis://localhost:6379' }) })
 * IdempotencyModule.forRoot({ store: redisStore({ client: new Cluster(nodes) }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When ioredis is required but not installed,
 * `open()` throws it.
 */
export function redisStore(options: RedisStoreOptions): RedisIdempotencyStore {
  checkConnectionOptions(options);
  const { client, keyPrefix, push, waitReplicas, journal } = options;
  const common = { keyPrefix, push, waitReplicas, journal };
  if (client !== undefined) {
    return new RedisIdempotencyStore({ ...common, link: () => ioredisLink(client) });
  }
  const connect = async (warned: (warning: StoreWarning) => boolean) =>
    ownLink(await openConnection(options, warned));
  return new RedisIdempotencyStore({ ...common, connect });
}
