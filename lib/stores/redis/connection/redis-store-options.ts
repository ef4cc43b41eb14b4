import { IdempotencyOptionsError } from '../../../core/util/errors.js';
import { checkInteger, checkNames, within } from '../../../core/util/option-checks.js';
import type { RedisClient } from './client-types.js';

/** Options of {@link redisStore}: either a `client`, or what opening a connection requires. */
export type RedisStoreOptions = UserClientOptions | OwnConnectionOptions;

interface CommonOptions {
  /**
   * First part of every key: a record is stored under `{keyPrefix}:1:{digest}`. Applications that share a Redis but not
   * their records need different prefixes. 1 to 64 printable ASCII characters, without spaces and braces.
   * @defaultValue `'idem'`
   */
  readonly keyPrefix?: string | undefined;

  /**
   * Whether Redis notifies waiting duplicates (`whenInProgress: 'wait'`) when the operation ends, by Pub/Sub (on a
   * cluster sharded, Redis ≥ 7) on a channel named like the record. Takes one more connection per process, opened when
   * the first duplicate waits. Without it, or if the server rejects it, duplicates poll at least four times a second.
   * @defaultValue true
   */
  readonly push?: boolean | undefined;

  /**
   * Waits at the begin and at the completion of an attempt until replicas confirm it, so that a failover to one of them
   * loses neither. If too few confirm in time, a begin responds with 503 and releases its key; a completion follows
   * `onSaveFailure`. Takes one more connection per process, and adds the replication delay to both steps. A gap
   * remains: Redis may promote a replica that did not confirm.
   * @defaultValue off
   */
  readonly waitReplicas?: WaitReplicas | undefined;
}

export interface WaitReplicas {
  /** Number of replicas, 1 to 10. */
  readonly count: number;
  /** Milliseconds to wait for them, 1 to 60 000. Well below `commandTimeoutMs`, which includes it. */
  readonly timeoutMs: number;
}

/** A connection that the application opened. The store neither closes it nor changes its settings. */
export interface UserClientOptions extends CommonOptions {
  /**
   * A `Redis` (one server, or Sentinel) or a `Cluster` of ioredis 5 or 6.
   * - Set `enableAutoPipelining: true` on it: that saves the server a third of its work under load.
   * - Listen to its `error` event: the store can then distinguish a rejected password from a server that is down.
   * - Do not begin a transaction on it with `multi({ pipeline: false })`: it would include the store's commands.
   * - Close it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls the latter before the library waits for
   *   running operations, whose outcomes could then not be stored.
   */
  readonly client: RedisClient;
  readonly url?: undefined;
  readonly connection?: undefined;
  readonly onConnectionError?: undefined;
}

/** A connection that the store opens with the first command, and closes. Requires ioredis. */
export interface OwnConnectionOptions extends CommonOptions {
  readonly client?: undefined;

  /**
   * `redis://[user:password@]host[:port][/db]`, or `rediss://…` for TLS. A database that the server rejects stops the
   * start; the store never sends a command to another one.
   */
  readonly url?: string | undefined;

  /**
   * ioredis options, such as Sentinels, instead of `url` or in addition to it. They override the store's defaults:
   * - `connectionName: 'nestjs-idempotency'`, which CLIENT LIST shows.
   * - `enableOfflineQueue: false`, `maxRetriesPerRequest: 0`: the store itself sends again until the command's
   *   deadline, and no command is executed after its caller has given up.
   * - `enableAutoPipelining: true`: the commands of one event loop iteration are sent in one write, which saves both
   *   sides most system calls. The store does this itself; `false` sends each command at once.
   * - `connectTimeout: 2000` (ms). Reconnects after 50 ms, then twice as long each time, at most 250 ms.
   * - `socketTimeout: 1000` (ms): a connection with pending replies that moves no bytes for so long is replaced.
   * - `sentinelCommandTimeout: 500` (ms): then queries the next Sentinel.
   * - `failoverDetector: true`: subscribes to the Sentinels, one connection to each, and leaves a replaced primary at
   *   once instead of when it is demoted. Until then, that primary would confirm writes that are lost.
   * - `reconnectOnError`: on READONLY, to find the new primary after a failover.
   * - `lazyConnect: true`: no connection before the application starts.
   */
  readonly connection?: RedisConnectionOptions | undefined;

  /**
   * Called once per outage, with the error of the connection. Commands report their own errors.
   * @defaultValue a warning in Nest's log, code `redis_connection_failed`; outside of Nest a process warning, code
   * `IDEMPOTENCY_REDIS_CONNECTION`
   */
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

/** Options of ioredis: these, and all others that it documents. */
export interface RedisConnectionOptions {
  readonly host?: string | undefined;
  /** @defaultValue 6379 */
  readonly port?: number | undefined;
  /** Unix socket, instead of host and port. */
  readonly path?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** @defaultValue 0 */
  readonly db?: number | undefined;
  /** Options of `tls.connect`. */
  readonly tls?: object | undefined;
  readonly sentinels?: readonly { readonly host?: string; readonly port?: number }[] | undefined;
  /** Name of the primary that the Sentinels monitor. */
  readonly name?: string | undefined;
  readonly connectionName?: string | undefined;
  readonly socketTimeout?: number | undefined;
  readonly enableAutoPipelining?: boolean | undefined;
  readonly [option: string]: unknown;
}

const OWN_CONNECTION = ['url', 'connection', 'onConnectionError'];
const ALL = ['client', ...OWN_CONNECTION, 'keyPrefix', 'push', 'waitReplicas'];

const REMEDIES = new Map(
  ['host', 'port', 'username', 'password', 'db', 'tls', 'sentinels'].map((name) => [
    name,
    'It is an ioredis option: redisStore({ connection: { … } }).',
  ]),
);

export function checkRedisStoreOptions(options: Readonly<Record<string, unknown>>): void {
  within('redisStore', 'redisStore', () => {
    check(options);
  });
}

function check(options: Readonly<Record<string, unknown>>): void {
  const given = Object.keys(options).filter((name) => options[name] !== undefined);
  checkNames('redisStore', options, new Set(ALL), REMEDIES);
  checkedKeyPrefix(options.keyPrefix);
  const { push = true } = options;
  if (typeof push !== 'boolean')
    throwRedisOptionError(`push must be true or false, but it is a ${typeof push}.`);
  if (options.waitReplicas !== undefined) checkWaitReplicas(options.waitReplicas);
  if (options.client !== undefined) {
    const besides = given.find((name) => OWN_CONNECTION.includes(name));
    if (besides !== undefined)
      throwRedisOptionError(`client has its own connection: leave out ${besides}.`);
    return;
  }
  const { url, connection, onConnectionError } = options;
  if (url === undefined && connection === undefined)
    throwRedisOptionError('one of client, url, connection is required.');
  if (url !== undefined) checkUrl(url);
  if (connection !== undefined && (typeof connection !== 'object' || connection === null)) {
    throwRedisOptionError(
      `connection must be an object of ioredis options, but it is a ${typeof connection}.`,
    );
  }
  if (onConnectionError !== undefined && typeof onConnectionError !== 'function') {
    throwRedisOptionError(
      `onConnectionError must be a function, but it is a ${typeof onConnectionError}.`,
    );
  }
}

function checkWaitReplicas(value: unknown): void {
  checkNames('waitReplicas', value, new Set(['count', 'timeoutMs']));
  const { count, timeoutMs } = value as { count?: unknown; timeoutMs?: unknown };
  checkInteger('waitReplicas.count', count, 1, 10);
  checkInteger('waitReplicas.timeoutMs', timeoutMs, 1, 60_000);
}

function checkUrl(url: unknown): void {
  if (typeof url === 'string' && /^rediss?:\/\/./.test(url)) return;
  // The rest may contain a password.
  const scheme = typeof url === 'string' ? /^[a-z+.-]*:/i.exec(url)?.[0] : undefined;
  const found = scheme === undefined ? `a ${typeof url} without a scheme` : JSON.stringify(scheme);
  throwRedisOptionError(`url must begin with redis:// or rediss://; it is ${found}.`);
}

function throwRedisOptionError(message: string): never {
  throw new IdempotencyOptionsError(`redisStore: ${message}`);
}

const DEFAULT_KEY_PREFIX = 'idem';

/** Printable ASCII without space, and without braces, which would map all records to one slot of a cluster. */
const ALLOWED = /^[!-z|~]{1,64}$/;

export function checkedKeyPrefix(keyPrefix: unknown = DEFAULT_KEY_PREFIX): string {
  if (typeof keyPrefix !== 'string' || !ALLOWED.test(keyPrefix)) {
    throw new IdempotencyOptionsError(
      `keyPrefix must be 1 to 64 printable ASCII characters without spaces and braces, not ${JSON.stringify(keyPrefix)}.`,
    );
  }
  return keyPrefix;
}
