import { replyCode } from './error-classification.js';
import { loadIoredis } from './load-ioredis.js';
import type { OwnRedisClient } from './binary-client.js';
import type { OwnConnectionOptions } from './redis-store-options.js';

export interface OwnConnection {
  readonly client: OwnRedisClient;
  readonly close: () => Promise<void>;
}

const LONGEST_RECONNECT_PAUSE_MS = 1_000;
const QUIT_TIMEOUT_MS = 1_000;

/** See {@link OwnConnectionOptions.connection}, which tells the user. */
const DEFAULTS = {
  connectionName: 'nestjs-idempotency',
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  enableAutoPipelining: true,
  connectTimeout: 2_000,
  socketTimeout: 1_000,
  disconnectTimeout: 200,
  sentinelCommandTimeout: 500,
  retryStrategy: (times: number) =>
    Math.min(25 * 2 ** times, LONGEST_RECONNECT_PAUSE_MS) * (0.75 + Math.random() / 4),
  reconnectOnError: (error: Error) => replyCode(error.message) === 'READONLY',
};

export function openConnection(options: OwnConnectionOptions): OwnConnection {
  const { url, connection, onConnectionError = warnOnce } = options;
  const settings = { ...DEFAULTS, ...connection };
  const Redis = loadIoredis();
  const client = url === undefined ? new Redis(settings) : new Redis(url, settings);
  reportOutages(client, onConnectionError);
  return { client, close: () => closeConnection(client) };
}

/** ioredis reports every failed attempt to reconnect: the first of an outage is enough. */
function reportOutages(client: OwnRedisClient, report: (error: Error) => void): void {
  let reported = false;
  client.on('error', (error: Error) => {
    if (reported) return;
    reported = true;
    report(error);
  });
  client.on('ready', () => {
    reported = false;
  });
}

function warnOnce(error: Error): void {
  process.emitWarning(`The connection to Redis failed: ${error.message || error.name}`, {
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
    if (client.status === 'ready') client.quit().catch(() => client.disconnect());
    else client.disconnect();
  });
}
