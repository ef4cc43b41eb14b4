import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { IdempotencyOptionsError } from '../../../core/errors/errors.js';
import { missingPeer } from '../../../core/util/missing-peer.js';
import { requirePeer } from '../../../core/util/peers.js';
import { isEnd } from '../link/connection-errors.js';
import { reportOutages, warnOfOutage } from '../link/outages.js';
import type { RequiredReplicas } from '../link/redis-link.js';
import { replyCode } from '../link/send-failure.js';
import { CorkedWrites } from './client-commands.js';
import type {
  BinaryRedisClient,
  EndingClient,
  OwnRedisClient,
  RedisConnectionOptions,
} from './client-types.js';
import { noReplyError } from './connection-state.js';
import { describeFailure } from './error-classification.js';
import { STALL_TIMEOUT_MS, StallDetector } from '../link/stall-detector.js';
import { listenToSockets } from './stream-errors.js';

/** As `OwnConnectionOptions`, which document them. */
export interface ConnectionSettings {
  readonly url?: string | undefined;
  readonly connection?: RedisConnectionOptions | undefined;
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

/** A connection that the store has opened, and has to close. */
export interface OpenedConnection {
  readonly client: BinaryRedisClient;
  readonly stallDetector: StallDetector;
  /** Undefined if each command is sent at once. */
  readonly corkedWrites: CorkedWrites | undefined;
  /** Of the connections of a cluster. */
  readonly stallTimeoutMs?: number;
  /** If WAIT follows its commands. */
  readonly required?: RequiredReplicas;
  readonly close: () => Promise<void>;
}

export interface OwnConnection extends OpenedConnection {
  readonly client: OwnRedisClient;
}

const LONGEST_RECONNECT_PAUSE_MS = 250;
const QUIT_TIMEOUT_MS = 1_000;

/** Documented at `connection` of `OwnConnectionOptions`. */
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
  settings: ConnectionSettings,
  warned: (warning: StoreWarning) => boolean = () => false,
): Promise<OwnConnection> {
  const {
    url,
    connection,
    onConnectionError = (error) => {
      warnOfOutage(describeFailure(error), warned);
    },
  } = settings;
  const {
    socketTimeout = STALL_TIMEOUT_MS,
    enableAutoPipelining: isBatched = true,
    ...others
  } = connection ?? {};
  // ioredis would resend before its database is checked.
  const options = { ...DEFAULTS, ...others, autoResendUnfulfilledCommands: false };
  const { Redis } = await loadClients();
  const client = listenToSockets(url === undefined ? new Redis(options) : new Redis(url, options));
  checkDatabase(client);
  reportOutages(client, (error, hasBeenReady) =>
    onConnectionError(hasBeenReady || !isEnd(error) ? error : noReplyError(client, error)),
  );
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

/** ioredis takes anything but a number as database 0. */
function checkDatabase(client: OwnRedisClient): void {
  const { db = 0 } = client.options ?? {};
  if (Number.isSafeInteger(db) && db >= 0) return;
  client.disconnect();
  throw new IdempotencyOptionsError(
    'redisStore: the database at the end of "url", or "db" of "connection", must be an integer from 0: redis://localhost:6379/2.',
  );
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

export type RedisConstructor = new (...args: (string | object)[]) => OwnRedisClient;

interface Clients {
  readonly Redis: RedisConstructor;
  readonly Cluster: new (...args: object[]) => unknown;
}

/** @throws {@link IdempotencyOptionsError} when ioredis is not installed. */
export async function loadClients(): Promise<Clients> {
  try {
    return (requirePeer('ioredis') ?? (await import('ioredis'))) as Clients;
  } catch (error) {
    throw missingPeer(error, 'ioredis', 'redisStore opens the connection with');
  }
}
