import type { StoreWarning } from '../../../core/store/idempotency-store.js';
import { IdempotencyOptionsError } from '../../../core/errors/errors.js';
import { isDoneWithin } from '../../../core/util/time.js';
import { nodeClock } from '../../../core/util/clock.js';
import { missingPeer } from '../../../core/util/missing-peer.js';
import { requirePeer } from '../../../core/util/peers.js';
import { reportOutages, warnOfOutage } from '../link/outages.js';
import type { RequiredReplicas } from '../link/redis-link.js';
import { failureOfClient, type LinkFailure } from '../link/send-failure.js';
import { LONGEST_RECONNECT_PAUSE_MS, TEXTS } from './client-commands.js';
import { isClusterClient, type ClusterClient, type SingleClient } from './client-types.js';
import { describeFailure } from './error-classification.js';

/** As `NodeRedisConnectionOptions`, which document them. */
export interface ConnectionSettings {
  readonly url?: string | undefined;
  readonly connection?: { readonly socket?: object | undefined } | undefined;
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

/** A connection that the store has opened, and has to close. */
export interface Opened {
  readonly client: SingleClient | ClusterClient;
  /** If WAIT follows its commands. */
  readonly required?: RequiredReplicas;
  /** @defaultValue {@link STALL_TIMEOUT_MS} */
  readonly stallTimeoutMs?: number;
  /** Why no command may be sent although it is ready. */
  readonly unverified?: LinkFailure | undefined;
  close(): Promise<void>;
}

/** Replies are counted, not bytes: a large record needs its time. */
export const STALL_TIMEOUT_MS = 5_000;
const CLOSE_TIMEOUT_MS = 1_000;

/** Documented at `connection` of `NodeRedisConnectionOptions`. */
const DEFAULTS = { clientInfoTag: 'nestjs-idempotency', disableOfflineQueue: true };
const SOCKET_DEFAULTS = {
  connectTimeout: 2_000,
  reconnectStrategy: (retries: number) =>
    Math.min(25 * 2 ** Math.min(retries, 10), LONGEST_RECONNECT_PAUSE_MS) *
    (0.75 + Math.random() / 4),
};

/** @param warned - reports an outage without a listener; returns whether an observer received it. */
export async function openConnection(
  settings: ConnectionSettings,
  warned: (warning: StoreWarning) => boolean = () => false,
): Promise<Opened> {
  const {
    url,
    connection,
    onConnectionError = (error) => {
      warnOfOutage(describeFailure(error), warned);
    },
  } = settings;
  const { createClient } = await loadClient();
  const options = {
    ...DEFAULTS,
    ...connection,
    ...(url === undefined ? {} : { url }),
    socket: { ...SOCKET_DEFAULTS, ...connection?.socket },
  };
  let client: SingleClient;
  try {
    client = createClient(options);
  } catch {
    // Its message may contain the URL.
    throw new IdempotencyOptionsError(
      'nodeRedisStore: createClient of redis rejects "url" or "connection". A URL is redis://[user:password@]host[:port][/database]; the option "tls" of "connection.socket" must agree with it.',
    );
  }
  reportOutages(client, (error) => onConnectionError(error));
  const destroy = keepConnecting(client);
  const close = async () => {
    // Earlier commands have their replies before it. close() of node-redis waits for them without a limit, and in version 5
    // nothing ends the connection after it.
    const last = client.isReady && client.sendCommand(['PING'], TEXTS);
    if (last) await isDoneWithin(CLOSE_TIMEOUT_MS, last, nodeClock);
    destroy();
  };
  return { client, close };
}

/** Opens a duplicate of the connection of `client`, for commands that WAIT follows. */
export function openReplicated(
  client: SingleClient | ClusterClient,
  required: RequiredReplicas,
): Opened {
  if (isClusterClient(client)) {
    const defaults = { ...client._options?.defaults, disableOfflineQueue: true };
    const duplicate = client.duplicate({ defaults });
    const destroy = keepConnecting(duplicate);
    const close = () => {
      destroy();
      return Promise.resolve();
    };
    return { client: duplicate, required, close };
  }
  const duplicate = client.duplicate({ disableOfflineQueue: true });
  const destroy = keepConnecting(duplicate);
  return new ReplicatedConnection(client, duplicate, required, destroy);
}

/** A duplicate has the database of the options: a SELECT of the application is not seen. */
class ReplicatedConnection implements Opened {
  unverified: LinkFailure | undefined = NOT_VERIFIED;
  private isClosed = false;

  constructor(
    original: SingleClient,
    readonly client: SingleClient,
    readonly required: RequiredReplicas,
    private readonly destroy: () => void,
  ) {
    void this.verify(original);
  }

  close(): Promise<void> {
    this.isClosed = true;
    this.destroy();
    return Promise.resolve();
  }

  private async verify(original: SingleClient): Promise<void> {
    if (this.isClosed) return;
    const database = original.options?.database ?? 0;
    try {
      const text = String(await original.sendCommand(['CLIENT', 'INFO'], TEXTS));
      const found = / db=(\d+)/.exec(text)?.[1];
      if (found === String(database)) this.unverified = undefined;
      else {
        this.unverified = failureOfClient(
          'misconfigured',
          `the client is set to database ${String(database)}, but its connection has database ${String(found)}, and waitReplicas opens another connection: set "database" in its options, and do not call select()`,
        );
      }
    } catch (error) {
      this.unverified = failureOfClient(
        'not_executed',
        `the database of the client is not known: ${describeFailure(error)}`,
      );
      setTimeout(() => void this.verify(original), LONGEST_RECONNECT_PAUSE_MS).unref();
    }
  }
}

const NOT_VERIFIED = failureOfClient('not_executed', 'the database is not verified yet');

/**
 * Connects again where node-redis gives up, as a cluster does when no server replies at the first time.
 * @returns what ends it.
 */
export function keepConnecting(client: SingleClient | ClusterClient): () => void {
  let isOver = false;
  const connect = () => {
    if (isOver) return;
    client.connect().catch(() => {
      setTimeout(connect, LONGEST_RECONNECT_PAUSE_MS).unref();
    });
  };
  // The connection for commands reports outages.
  client.on('error', () => undefined);
  connect();
  return () => {
    isOver = true;
    if (client.isOpen) client.destroy();
  };
}

interface Package {
  readonly createClient: (options: object) => SingleClient;
}

/** @throws {@link IdempotencyOptionsError} when redis is not installed. */
async function loadClient(): Promise<Package> {
  try {
    return (requirePeer('redis') ?? (await import('redis'))) as unknown as Package;
  } catch (error) {
    throw missingPeer(error, 'redis', 'nodeRedisStore opens the connection with');
  }
}
