// Not the global one: while a test fakes it, corked writes would never be sent.
import { setImmediate } from 'node:timers';
import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { IdempotencyOptionsError } from '../../../core/util/errors.js';
import { forget } from '../../../core/util/maybe-async.js';
import { missingPeer } from '../../../core/util/missing-peer.js';
import { requirePeer } from '../../../core/util/peers.js';
import type { CorkableStream, EndingClient, OwnRedisClient } from './client-types.js';
import { noReplyError } from './connection-state.js';
import { describeFailure, isEnd, replyCode } from './error-classification.js';
import { OwnCommands } from './own-commands.js';
import type { OwnConnectionOptions } from './redis-store-options.js';
import { StallDetector } from './stall-detector.js';
import { listenToSockets } from './stream-errors.js';

export interface OwnConnection {
  readonly client: OwnRedisClient;
  readonly stallDetector: StallDetector;
  /** Undefined if each command is sent at once. */
  readonly corkedWrites: CorkedWrites | undefined;
  readonly ownCommands: OwnCommands;
  readonly close: () => Promise<void>;
}

/** See {@link StallDetector}, which replaces the option of ioredis. */
const SOCKET_TIMEOUT_MS = 1_000;
const LONGEST_RECONNECT_PAUSE_MS = 250;
const QUIT_TIMEOUT_MS = 1_000;

/** Documented at {@link OwnConnectionOptions.connection}. */
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

/** @param warned - reports an outage without a listener; returns whether an observer received it. */
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
  // ioredis would resend before its database is checked.
  const settings = { ...DEFAULTS, ...others, autoResendUnfulfilledCommands: false };
  const { Redis } = await loadIoredis();
  const client = listenToSockets(
    url === undefined ? new Redis(settings) : new Redis(url, settings),
  );
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
    ownCommands: new OwnCommands(client),
    close,
  };
}

/** ioredis takes anything but a number as database 0. */
function checkDatabase(client: OwnRedisClient): void {
  const { db = 0 } = client.options ?? {};
  if (Number.isSafeInteger(db) && db >= 0) return;
  client.disconnect();
  throw new IdempotencyOptionsError(
    'redisStore: the database at the end of "url", or "db" of "connection", must be an integer from 0: redis://localhost:6379/2.',
  );
}

/** ioredis reports every failed attempt to reconnect. Report only the first one of an outage. */
function reportOutages(client: OwnRedisClient, report: (error: Error) => unknown): void {
  let reported = false;
  let hasBeenReady = false;
  client.on('error', (error: Error) => {
    if (reported) return;
    reported = true;
    forget(report(hasBeenReady || !isEnd(error) ? error : noReplyError(client, error)));
  });
  client.on('ready', () => {
    hasBeenReady = true;
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
  // Between two attempts there is no socket, and no event follows.
  if (client.status === 'reconnecting') {
    client.disconnect();
    return;
  }
  await new Promise<void>((resolve) => {
    // While it queries a Sentinel it has no socket yet, and an event may never follow.
    const timeoutTimer = setTimeout(() => {
      client.disconnect();
      resolve();
    }, QUIT_TIMEOUT_MS);
    client.once('end', () => {
      clearTimeout(timeoutTimer);
      resolve();
    });
    // Also after QUIT: otherwise its connections to the Sentinels stay open.
    const leave = () => {
      client.disconnect();
    };
    if (client.status === 'ready') client.quit().then(leave, leave);
    else leave();
  });
}

const PAUSE_MS = 100;

/**
 * Connects again after ioredis has given up, as it does when a Sentinel announces a failover (`failoverDetector`) while
 * it is connecting. Without this, every operation would be rejected until the process restarts.
 */
export class ReconnectOnEnd {
  private isOver = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly client: EndingClient) {
    client.on('end', () => {
      if (this.isOver) return;
      // If connecting fails, the connection emits "end" again.
      this.timer = setTimeout(() => {
        this.client.connect().catch(() => undefined);
      }, PAUSE_MS).unref();
    });
  }

  stop(): void {
    this.isOver = true;
    clearTimeout(this.timer);
  }
}

/**
 * Sends the commands of one event loop iteration in one write, as the auto-pipelining of ioredis does. That one costs
 * two promises and an iteration per command, more than all else that the client does for it.
 */
export class CorkedWrites {
  private corked: CorkableStream | undefined;

  /** @param client - its stream changes with each connection, and is undefined without one. */
  constructor(private readonly client: { readonly stream?: CorkableStream }) {}

  /** Buffers what is written until the end of this iteration. */
  cork(): void {
    const { stream } = this.client;
    if (stream === undefined || stream === this.corked) return;
    this.corked = stream;
    stream.cork();
    // After all input of this iteration, which may cause further commands.
    setImmediate(() => {
      if (this.corked === stream) this.corked = undefined;
      stream.uncork();
    });
  }
}

export type RedisConstructor = new (...args: (string | object)[]) => OwnRedisClient;

interface Ioredis {
  readonly Redis: RedisConstructor;
  readonly Cluster: new (...args: object[]) => unknown;
}

/** @throws {@link IdempotencyOptionsError} when ioredis is not installed. */
export async function loadIoredis(): Promise<Ioredis> {
  try {
    return (requirePeer('ioredis') ?? (await import('ioredis'))) as Ioredis;
  } catch (error) {
    throw missingPeer(error, 'ioredis', 'redisStore opens the connection with');
  }
}
