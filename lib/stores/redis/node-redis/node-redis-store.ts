import { checkConnection, secret, url } from '../../../core/store/connection-options.js';
import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { isSettings } from '../../../core/options/option-checks.js';
import { isFunction, resolveOptions, type Schema } from '../../../core/options/option-schema.js';
import { RedisIdempotencyStore } from '../redis-idempotency-store.js';
import { checkDecodable, COMMON, type CommonOptions } from '../redis-store-options.js';
import type { NodeRedisClient } from './client-types.js';
import { nodeRedisLink, ownLink } from './node-redis-link.js';
import { openConnection } from './own-connection.js';

/** Options of {@link nodeRedisStore}: either a `client`, or what opening a connection requires. */
export type NodeRedisStoreOptions = NodeRedisUserClientOptions | NodeRedisOwnConnectionOptions;

/** A connection that the application opened. The store neither closes it nor changes its settings. */
export interface NodeRedisUserClientOptions extends CommonOptions {
  /**
   * A client of `createClient` or `createCluster` of redis 5.12 or later, that is open: await its `connect()` before.
   * - Its settings for replies and time-outs do not matter to the store: it sends with its own.
   * - Set `disableOfflineQueue: true` on it. What the client has not written when its connection ends is otherwise
   *   sent on the next one, maybe after the request has got 503 with an unknown outcome.
   * - Set `database` in its options, and do not call `select()` on it.
   * - Do not subscribe on it: a listener that throws shifts its replies. The store then ends the connection.
   * - Close it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls the latter before the library waits for
   *   running operations, whose outcomes could then not be stored.
   * - A client of `createSentinel` is rejected: it runs a command again after a lost connection.
   */
  readonly client: NodeRedisClient;
  readonly url?: undefined;
  readonly connection?: undefined;
  readonly onConnectionError?: undefined;
}

/** Options of `createClient`: these, and all others that redis documents. */
export interface NodeRedisConnectionOptions {
  /** Options of the socket, such as `host`, `port`, `path`, and `tls: true` with those of `tls.connect`. */
  readonly socket?: object | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** @defaultValue 0 */
  readonly database?: number | undefined;
  /** @defaultValue that of redis: 2 in version 5, 3 in version 6 */
  readonly RESP?: 2 | 3 | undefined;
  readonly [option: string]: unknown;
}

/** A connection that the store opens with the first command, and closes. Requires redis. */
export interface NodeRedisOwnConnectionOptions extends CommonOptions {
  readonly client?: undefined;

  /** `redis://[user:password@]host[:port][/database]`, or `rediss://…` for TLS. @defaultValue none */
  readonly url?: string | undefined;

  /**
   * Options of `createClient`, instead of `url` or in addition to it. They override the store's defaults:
   * - `clientInfoTag: 'nestjs-idempotency'`, which CLIENT LIST shows.
   * - `disableOfflineQueue: true`: the store itself sends again until the command's deadline, and no command is executed
   *   after its caller has given up.
   * - `socket.connectTimeout: 2000` (ms). `socket.reconnectStrategy`: after 25 ms, then twice as long each time, at most
   *   250 ms.
   * A connection that owes replies and gives none for 5 seconds is replaced.
   * @defaultValue none
   */
  readonly connection?: NodeRedisConnectionOptions | undefined;

  /**
   * Called once per outage, with the error of the connection. Commands report their own errors.
   * @defaultValue a warning in Nest's log, code `redis_connection_failed`; outside of Nest a process warning, code
   * `IDEMPOTENCY_REDIS_CONNECTION`
   */
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

type OwnOptions = Pick<NodeRedisOwnConnectionOptions, 'url' | 'connection' | 'onConnectionError'>;

export const NODE_REDIS_OWN: Schema<OwnOptions, OwnOptions> = {
  url: url(['redis', 'rediss']),
  connection: secret('an object of options of createClient', isSettings),
  onConnectionError: secret(
    'a function',
    isFunction,
    "a warning in Nest's log, code `redis_connection_failed`; outside of Nest a process warning, code `IDEMPOTENCY_REDIS_CONNECTION`",
  ),
};

const REMEDIES = new Map([
  ...['host', 'port', 'path', 'tls'].map(
    (name) =>
      [
        name,
        'It is an option of createClient: nodeRedisStore({ connection: { socket: { … } } }).',
      ] as const,
  ),
  ...['username', 'password', 'database', 'RESP', 'socket'].map(
    (name) =>
      [name, 'It is an option of createClient: nodeRedisStore({ connection: { … } }).'] as const,
  ),
]);

/**
 * Stores records in Redis ≥ 6.2 or Valkey by `redis` (node-redis) 5.12 or later: one server or a Cluster. The records are
 * those of `redisStore`: another process may use ioredis.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: nodeRedisStore({ url: 'redis://localhost:6379' }) })
 * IdempotencyModule.forRoot({ store: nodeRedisStore({ client: await createCluster(nodes).connect() }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When redis is required but not installed,
 * `open()` throws it.
 */
export function nodeRedisStore(options: NodeRedisStoreOptions): RedisIdempotencyStore {
  const level = { others: ['client', ...Object.keys(COMMON)], remedies: REMEDIES };
  resolveOptions('nodeRedisStore', NODE_REDIS_OWN, options, level);
  checkDecodable('nodeRedisStore', options.url);
  checkConnection('nodeRedisStore', options, Object.keys(NODE_REDIS_OWN));
  const { client, keyPrefix, push, waitReplicas, journal } = options;
  const common = { keyPrefix, push, waitReplicas, journal, factory: 'nodeRedisStore' };
  if (client !== undefined) {
    return new RedisIdempotencyStore({ ...common, link: () => nodeRedisLink(client) });
  }
  const connect = async (warned: (warning: StoreWarning) => boolean) =>
    ownLink(await openConnection(options, warned));
  return new RedisIdempotencyStore({ ...common, connect });
}
