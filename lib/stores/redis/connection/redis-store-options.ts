import { IdempotencyOptionsError } from '../../../core/util/errors.js';
import { checkInteger, checkNames, within } from '../../../core/util/option-checks.js';
import type { RedisClient } from './client-types.js';

/** Options of {@link redisStore}: either a `client` of one's own, or what is needed to open a connection. */
export type RedisStoreOptions = UserClientOptions | OwnConnectionOptions;

interface CommonOptions {
  /**
   * First part of every key: a record is kept under `{keyPrefix}:1:{digest}`. Applications that share a
   * Redis and must not share records need different ones.
   *
   * 1 to 64 printable ASCII characters, without spaces and braces.
   *
   * @defaultValue `'idem'`
   */
  readonly keyPrefix?: string | undefined;

  /**
   * Whether duplicates that wait (`whenInProgress: 'wait'`) are told of the end they wait for, by Redis'
   * Pub/Sub on a channel that is named like the record (on a cluster the sharded one, which Redis 7 has).
   * It takes one more connection per process, opened when the first duplicate waits. Without it, or where
   * the server does not allow it, they look themselves, four times a second or more.
   *
   * @defaultValue true
   */
  readonly push?: boolean | undefined;

  /**
   * Waits, at the begin and at the completion of an attempt, until replicas have it, so that a failover to
   * one of them loses neither. Without enough of them in time a begin answers 503 and lets its key go, and a
   * completion follows `onSaveFailure`. It takes one more connection per process, and each of the two steps
   * as long as the replication.
   *
   * It narrows what asynchronous replication can lose and does not close the gap: Redis may promote a
   * replica that is not among those which confirmed.
   *
   * @defaultValue off
   */
  readonly waitReplicas?: WaitReplicas | undefined;
}

export interface WaitReplicas {
  /** How many replicas, 1 to 10. */
  readonly count: number;
  /** How long to wait for them, in milliseconds, 1 to 60 000: well below `commandTimeoutMs`, which goes on meanwhile. */
  readonly timeoutMs: number;
}

/** A connection that the application opened: the store neither closes it nor changes its settings. */
export interface UserClientOptions extends CommonOptions {
  /**
   * A `Redis` (one server, or Sentinel) or a `Cluster` of ioredis 5 or 6.
   *
   * Worth setting there: `enableAutoPipelining: true` saves the server a third of its work under load.
   * Listen to its `error` event: the store then tells a refused password from a server that is down.
   *
   * Begin no transaction on it by `multi({ pipeline: false })`: it would take in the store's commands.
   *
   * Close it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls that one before running
   * operations are waited for, and their outcomes could no longer be stored.
   */
  readonly client: RedisClient;
  readonly url?: undefined;
  readonly connection?: undefined;
  readonly onConnectionError?: undefined;
}

/** A connection that the store opens at the first command, and closes. ioredis must be installed. */
export interface OwnConnectionOptions extends CommonOptions {
  readonly client?: undefined;

  /**
   * `redis://[user:password@]host[:port][/db]`, or `rediss://…` for TLS. A database that the server refuses stops the
   * start; nothing is ever sent to another one.
   */
  readonly url?: string | undefined;

  /**
   * ioredis options, instead of `url` or besides it; how to name Sentinels, for one. They override what the
   * store chooses:
   *
   * - `connectionName: 'nestjs-idempotency'`, as CLIENT LIST shows it.
   * - `enableOfflineQueue: false`, `maxRetriesPerRequest: 0`: the store itself sends again, within the
   *   command's time budget, and nothing is executed later that nobody waits for any more.
   * - `enableAutoPipelining: true`: the commands of one turn of the event loop go out in one write, which spares both
   *   sides most system calls. The store does it itself; `false` sends each at once.
   * - `connectTimeout: 2000` (ms), and reconnecting after 50 ms, then twice as long each time, at most after
   *   a quarter of a second.
   * - `socketTimeout: 1000` (ms): a connection that owes a reply and stays silent for so long is replaced,
   *   so that a dead one costs no more than that.
   * - `sentinelCommandTimeout: 500` (ms): the next Sentinel is asked when one does not answer.
   * - `failoverDetector: true`: listens to the Sentinels, one connection to each, and leaves a primary that was
   *   replaced at once instead of when it is demoted; until then that one confirms what will be lost.
   * - `reconnectOnError`: on READONLY, to find the new primary after a failover.
   * - `lazyConnect: true`: no connection before the application starts.
   */
  readonly connection?: RedisConnectionOptions | undefined;

  /**
   * Called once per outage with what the connection failed of; the commands tell for themselves.
   *
   * @defaultValue a warning in Nest's log, code `redis_connection_failed`; outside of Nest one of the process, code
   * `IDEMPOTENCY_REDIS_CONNECTION`
   */
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

/** Options of ioredis: these, and all the others that its documentation names. */
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
  /** Name of the primary that the Sentinels watch. */
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
    'It is one of ioredis: redisStore({ connection: { … } }).',
  ]),
);

/** @throws {@link IdempotencyOptionsError} naming the option, what it may be and what it is. */
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
    throwRedisOptionError('one of client, url, connection is needed.');
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
  // The rest may hold a password.
  const scheme = typeof url === 'string' ? /^[a-z+.-]*:/i.exec(url)?.[0] : undefined;
  const found = scheme === undefined ? `a ${typeof url} without a scheme` : JSON.stringify(scheme);
  throwRedisOptionError(`url must begin with redis:// or rediss://; it is ${found}.`);
}

function throwRedisOptionError(message: string): never {
  throw new IdempotencyOptionsError(`redisStore: ${message}`);
}

const DEFAULT_KEY_PREFIX = 'idem';

/** Printable ASCII: no space, and no braces, which would give all records one slot of a cluster. */
const ALLOWED = /^[!-z|~]{1,64}$/;

export function checkedKeyPrefix(keyPrefix: unknown = DEFAULT_KEY_PREFIX): string {
  if (typeof keyPrefix !== 'string' || !ALLOWED.test(keyPrefix)) {
    throw new IdempotencyOptionsError(
      `keyPrefix must be 1 to 64 printable ASCII characters without spaces and braces, not ${JSON.stringify(keyPrefix)}.`,
    );
  }
  return keyPrefix;
}
