import { checkConnection, secret, url } from '../../core/store/connection-options.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { millisecondsOf, type Duration } from '../../core/options/duration.js';
import {
  checkDuration,
  checkInteger,
  checkNames,
  isSettings,
} from '../../core/options/option-checks.js';
import {
  flag,
  isFunction,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import type { RedisClient, RedisConnectionOptions } from './ioredis/client-types.js';
import { JOURNAL, type RedisJournalOptions } from './redis-journal.js';
import type { RequiredReplicas } from './link/redis-link.js';

/** Options of {@link redisStore}: either a `client`, or what opening a connection requires. */
export type RedisStoreOptions = UserClientOptions | OwnConnectionOptions;

export interface CommonOptions {
  /**
   * First part of every key: a record is stored under `{keyPrefix}:1:{digest}`. Applications that share a Redis but not
   * their records need different prefixes. 1 to 64 printable ASCII characters, without spaces and braces.
   * @defaultValue 'idem'
   */
  readonly keyPrefix?: string | undefined;

  /**
   * Whether Redis notifies waiting duplicates (`duplicates: 'wait'`) when the operation ends, by Pub/Sub (on a
   * cluster sharded, Redis ≥ 7) on a channel named like the record. Takes one more connection per process, opened when
   * the first duplicate waits. Without it, or if the server rejects it, duplicates poll at least four times a second.
   * @defaultValue true
   */
  readonly push?: boolean | undefined;

  /**
   * Waits at the begin and at the completion of an attempt until replicas confirm it, so that a failover to one of them
   * loses neither. If too few confirm in time, a begin responds with 503 and releases its key; a completion follows
   * `storeErrors.whenNotSaved`. Takes one more connection per process, and adds the replication delay to both steps. A gap
   * remains: Redis may promote a replica that did not confirm.
   * @defaultValue off
   */
  readonly waitReplicas?: WaitReplicas | undefined;

  /**
   * Keeps the history of each record: an entry for each change in the stream `{keyPrefix}:journal`, added by the script that
   * makes it. Takes no command more, and work of the server. An outcome is stored also where its entry cannot be added: that
   * is counted, and the event `journal_incomplete` says so. Not on a cluster.
   * @defaultValue false
   */
  readonly journal?: RedisJournalOptions | false | undefined;
}

/** How many replicas have to confirm a write, and how long the store waits for them. */
export interface WaitReplicas {
  /** Number of replicas, 1 to 10. */
  readonly count: number;
  /** How long to wait for them, '1ms' to '1m'. Well below `storeErrors.commandTimeout`, which includes it. */
  readonly timeout: Duration;
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
   * @defaultValue none
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
   * @defaultValue none
   */
  readonly connection?: RedisConnectionOptions | undefined;

  /**
   * Called once per outage, with the error of the connection. Commands report their own errors.
   * @defaultValue a warning in Nest's log, code `redis_connection_failed`; outside of Nest a process warning, code
   * `IDEMPOTENCY_REDIS_CONNECTION`
   */
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

type ResolvedCommonOptions = Defaulted<
  Omit<CommonOptions, 'waitReplicas' | 'journal'>,
  'keyPrefix' | 'push'
> & {
  readonly waitReplicas?: RequiredReplicas;
  readonly journal: Defaulted<RedisJournalOptions> | false;
};

export const COMMON: Schema<CommonOptions, ResolvedCommonOptions> = {
  // Braces would map all records to one slot of a cluster.
  keyPrefix: of(
    '1 to 64 printable ASCII characters without spaces and braces',
    (value) => typeof value === 'string' && /^[!-z|~]{1,64}$/.test(value),
    { default: 'idem' },
  ),
  push: flag(true),
  waitReplicas: {
    defaultText: 'off',
    check: (option, value) => {
      checkNames(option, value, new Set(['count', 'timeout']));
      const { count, timeout } = value as Partial<WaitReplicas>;
      checkInteger(`${option}.count`, count, 1, 10);
      checkDuration(`${option}.timeout`, timeout, '1ms', '1m');
    },
    read: ({ count, timeout }) =>
      Object.freeze({ count, timeoutMs: Number(millisecondsOf(timeout)) }),
  },
  journal: JOURNAL,
};

type OwnOptions = Pick<OwnConnectionOptions, 'url' | 'connection' | 'onConnectionError'>;

export const OWN: Schema<OwnOptions, OwnOptions> = {
  url: url(['redis', 'rediss']),
  connection: secret('an object of options of ioredis', isSettings),
  onConnectionError: secret(
    'a function',
    isFunction,
    "a warning in Nest's log, code `redis_connection_failed`; outside of Nest a process warning, code `IDEMPOTENCY_REDIS_CONNECTION`",
  ),
};

const REMEDIES = new Map(
  ['host', 'port', 'username', 'password', 'db', 'tls', 'sentinels'].map((name) => [
    name,
    'It is an option of ioredis: redisStore({ connection: { … } }).',
  ]),
);

/** @param factory - the function that the user called: errors begin with it. */
export function resolveCommonOptions(
  options: CommonOptions,
  factory: string,
): ResolvedCommonOptions {
  return resolveOptions(factory, COMMON, options, { others: Object.keys(options) });
}

export function checkConnectionOptions(options: RedisStoreOptions): void {
  const level = { others: ['client', ...Object.keys(COMMON)], remedies: REMEDIES };
  resolveOptions('redisStore', OWN, options, level);
  checkDecodable('redisStore', options.url);
  checkConnection('redisStore', options, Object.keys(OWN));
}

/** The client throws an error without a word about the URL. */
export function checkDecodable(factory: string, url = ''): void {
  if (!isDecodable(url)) {
    throw new IdempotencyOptionsError(
      `${factory}: "url" has a % that begins no code. Encode special characters of the user name and the password: % as %25, # as %23, / as %2F, ? as %3F, @ as %40.`,
    );
  }
}

function isDecodable(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}
