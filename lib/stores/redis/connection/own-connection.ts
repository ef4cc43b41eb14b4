// Not the global one, which tests fake: what is held back would never go out.
import { setImmediate } from 'node:timers';
import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { IdempotencyOptionsError } from '../../../core/util/errors.js';
import { forget } from '../../../core/util/maybe-async.js';
import { missingPeer } from '../../../core/util/missing-peer.js';
import type { CorkableStream, EndingClient, OwnRedisClient } from './client-types.js';
import { describeFailure, replyCode } from './error-classification.js';
import type { OwnConnectionOptions } from './redis-store-options.js';
import { StallDetector } from './stall-detector.js';

export interface OwnConnection {
  readonly client: OwnRedisClient;
  readonly stallDetector: StallDetector;
  /** Where commands go out together. */
  readonly corkedWrites: CorkedWrites | undefined;
  readonly close: () => Promise<void>;
}

/** See {@link StallDetector}, which stands in for ioredis' own. */
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
  const reconnectOnEnd = new ReconnectOnEnd(client);
  const close = () => {
    reconnectOnEnd.stop();
    return closeConnection(client);
  };
  const stallDetector = new StallDetector(client, socketTimeout);
  return {
    client,
    stallDetector,
    corkedWrites: isBatched ? new CorkedWrites(client) : undefined,
    close,
  };
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
    const timeoutTimer = setTimeout(() => {
      client.disconnect();
      resolve();
    }, QUIT_TIMEOUT_MS);
    client.once('end', () => {
      clearTimeout(timeoutTimer);
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

const PAUSE_MS = 100;

/**
 * Connects again when ioredis has given a connection up for good. It does so when a Sentinel's news of a
 * failover (`failoverDetector`) comes while it is connecting: without this, every operation would be refused
 * until the process is started again.
 */
export class ReconnectOnEnd {
  private isOver = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly client: EndingClient) {
    client.on('end', () => {
      if (this.isOver) return;
      // Should it fail, the connection ends once more.
      this.timer = setTimeout(() => {
        this.client.connect().catch(() => undefined);
      }, PAUSE_MS).unref();
    });
  }

  /** From now on an end is an end. */
  stop(): void {
    this.isOver = true;
    clearTimeout(this.timer);
  }
}

/**
 * Lets the commands of one turn of the event loop go out in one write, as ioredis' auto-pipelining does, of which each
 * command costs two promises and a turn of its own: more than all the rest that the client does for it.
 */
export class CorkedWrites {
  private corked: CorkableStream | undefined;

  /** @param client - its stream changes with each connection; none while there is no connection. */
  constructor(private readonly client: { readonly stream?: CorkableStream }) {}

  /** What is written from now on waits for the others of this turn. */
  cork(): void {
    const { stream } = this.client;
    if (stream === undefined || stream === this.corked) return;
    this.corked = stream;
    stream.cork();
    // Behind all input of this turn, which may bring further commands.
    setImmediate(() => {
      if (this.corked === stream) this.corked = undefined;
      stream.uncork();
    });
  }
}

export type RedisConstructor = new (...args: (string | object)[]) => OwnRedisClient;

/** @throws {@link IdempotencyOptionsError} when ioredis is not installed. */
async function loadIoredis(): Promise<RedisConstructor> {
  try {
    const { Redis } = await import('ioredis');
    return Redis as never;
  } catch (error) {
    throw missingPeer(error, 'ioredis', 'redisStore opens the connection with');
  }
}
