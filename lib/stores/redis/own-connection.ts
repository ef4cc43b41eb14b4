import type { StoreWarning } from '../../core/store/idempotency-store.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { forget } from '../../core/util/maybe-async.js';
import type { OwnRedisClient } from './binary-client.js';
import { describeFailure, replyCode } from './error-classification.js';
import { loadIoredis } from './load-ioredis.js';
import type { OwnConnectionOptions } from './redis-store-options.js';
import { Revival } from './revival.js';
import { SilenceWatch } from './silence-watch.js';
import { WriteBatch } from './write-batch.js';

export interface OwnConnection {
  readonly client: OwnRedisClient;
  readonly silence: SilenceWatch;
  /** Where commands go out together. */
  readonly batch: WriteBatch | undefined;
  readonly close: () => Promise<void>;
}

/** See {@link SilenceWatch}, which stands in for ioredis' own. */
const SOCKET_TIMEOUT_MS = 1_000;
const LONGEST_RECONNECT_PAUSE_MS = 250;
const QUIT_TIMEOUT_MS = 1_000;

/** See {@link OwnConnectionOptions.connection}, which tells the user. */
const DEFAULTS = {
  connectionName: 'nestjs-idempotency',
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 2_000,
  disconnectTimeout: 200,
  sentinelCommandTimeout: 500,
  failoverDetector: true,
  retryStrategy: (times: number) =>
    Math.min(25 * 2 ** times, LONGEST_RECONNECT_PAUSE_MS) * (0.75 + Math.random() / 4),
  reconnectOnError: (error: Error) => replyCode(error.message) === 'READONLY',
};

/** @param warned - reports an outage where there is no listener; says whether an observer heard it. */
export async function openConnection(
  options: OwnConnectionOptions,
  warned: (warning: StoreWarning) => boolean = () => false,
): Promise<OwnConnection> {
  const {
    url,
    connection,
    onConnectionError = (error) => {
      warn(error, warned);
    },
  } = options;
  const {
    socketTimeout = SOCKET_TIMEOUT_MS,
    enableAutoPipelining: isBatched = true,
    ...others
  } = connection ?? {};
  // ioredis resends before its database has been checked.
  const settings = { ...DEFAULTS, ...others, autoResendUnfulfilledCommands: false };
  const Redis = await loadIoredis();
  const client = url === undefined ? new Redis(settings) : new Redis(url, settings);
  checkDatabase(client);
  reportOutages(client, onConnectionError);
  const revival = new Revival(client);
  const close = () => {
    revival.stop();
    return closeConnection(client);
  };
  const silence = new SilenceWatch(client, socketTimeout);
  return { client, silence, batch: isBatched ? new WriteBatch(client) : undefined, close };
}

/** ioredis takes what is no number for database 0. */
function checkDatabase(client: OwnRedisClient): void {
  const { db = 0 } = client.options ?? {};
  if (Number.isSafeInteger(db) && db >= 0) return;
  client.disconnect();
  throw new IdempotencyOptionsError(
    'redisStore: the database at the end of "url", or "db" of "connection", must be an integer from 0: redis://localhost:6379/2.',
  );
}

/** ioredis reports every failed attempt to reconnect: the first of an outage is enough. */
function reportOutages(client: OwnRedisClient, report: (error: Error) => unknown): void {
  let reported = false;
  client.on('error', (error: Error) => {
    if (reported) return;
    reported = true;
    forget(report(error));
  });
  client.on('ready', () => {
    reported = false;
  });
}

function warn(error: Error, warned: (warning: StoreWarning) => boolean): void {
  const message = `The connection to Redis failed: ${describeFailure(error)}`;
  if (warned({ code: 'redis_connection_failed', message })) return;
  process.emitWarning(message, {
    type: 'IdempotencyWarning',
    code: 'IDEMPOTENCY_REDIS_CONNECTION',
  });
}

async function closeConnection(client: OwnRedisClient): Promise<void> {
  if (client.status === 'end') return;
  // Between two attempts there is no socket, and no event will come.
  if (client.status === 'reconnecting') {
    client.disconnect();
    return;
  }
  await new Promise<void>((resolve) => {
    // While it asks a Sentinel it has no socket of its own yet, and no event may ever come.
    const impatient = setTimeout(() => {
      client.disconnect();
      resolve();
    }, QUIT_TIMEOUT_MS);
    client.once('end', () => {
      clearTimeout(impatient);
      resolve();
    });
    // Also after QUIT: the connections by which it listens to Sentinels would outlive it.
    const leave = () => {
      client.disconnect();
    };
    if (client.status === 'ready') client.quit().then(leave, leave);
    else leave();
  });
}
