import { asError } from '../../core/errors/errors.js';
import { error, ok, type Finding } from '../../core/store/diagnosis/finding.js';
import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import { nodeClock } from '../../core/util/clock.js';
import { missingPeer } from '../../core/util/missing-peer.js';
import { requirePeer } from '../../core/util/peers.js';
import { within } from '../../core/util/time.js';
import {
  redisStore,
  type RedisClient,
  type RedisConnectionOptions,
} from '../../stores/redis/index.js';
import type { ServerAddress } from './server-address.js';

export interface RedisDoctorOptions {
  readonly url: string;
  readonly keyPrefix?: string | undefined;
  /** The name of the primary, if the URL is that of a Sentinel. */
  readonly sentinel?: string | undefined;
}

const CONNECT_TIMEOUT_MS = 2_000;

/** Closes the store at the end. */
export async function* diagnose(store: IdempotencyStore): AsyncGenerator<Finding> {
  try {
    yield* store.diagnose();
  } finally {
    await store.close();
  }
}

/** Checks a Redis server, its cluster, or the primary of Sentinels. */
export async function* diagnoseRedis(
  { url, keyPrefix, sentinel }: RedisDoctorOptions,
  address: ServerAddress,
): AsyncGenerator<Finding> {
  const server =
    sentinel === undefined ? { url } : { connection: throughSentinel(address, sentinel) };
  const store = redisStore({ ...server, keyPrefix, onConnectionError: () => undefined });
  for await (const finding of diagnose(store)) {
    const { check, verdict, message } = finding;
    if (check === 'cluster' && verdict === 'ok') {
      yield* diagnoseCluster(keyPrefix, address);
      return;
    }
    const [sentence] = / is a Sentinel\./.exec(message) ?? [];
    yield sentence === undefined
      ? finding
      : error(check, `${address.shown}${sentence} Add --sentinel with the name of the primary.`);
  }
}

/** Sentinels have users of their own: the URL's is that of the primary. */
function throughSentinel(address: ServerAddress, name: string): RedisConnectionOptions {
  const { host, port, database } = address;
  return { sentinels: [{ host, port }], name, db: Number(database), ...loginOf(address) };
}

function loginOf({ username, password, isEncrypted }: ServerAddress): RedisConnectionOptions {
  return {
    ...(username !== '' && { username }),
    ...(password !== '' && { password }),
    ...(isEncrypted && { tls: {} }),
  };
}

async function* diagnoseCluster(
  keyPrefix: string | undefined,
  address: ServerAddress,
): AsyncGenerator<Finding> {
  const { shown } = address;
  const client = await makeCluster(address);
  try {
    const connecting = within(2 * CONNECT_TIMEOUT_MS, client.connect(), nodeClock);
    const failure = await connecting.then(() => undefined, asError);
    if (failure !== undefined) {
      yield error(
        'connection',
        `${shown} belongs to a cluster, whose servers cannot be reached: ${failure.message}`,
      );
      return;
    }
    for await (const finding of diagnose(redisStore({ client, keyPrefix }))) {
      const { check, verdict, message } = finding;
      const hint = ` of ${shown}. An application passes a Cluster of ioredis as "client": a "url" reaches one server.`;
      const isConnected = check === 'connection' && verdict === 'ok';
      yield isConnected ? ok(check, message.slice(0, -1) + hint) : finding;
    }
  } finally {
    client.disconnect();
  }
}

interface ClusterClient extends RedisClient {
  connect(): Promise<unknown>;
  disconnect(): void;
}

/** As an application does. */
async function makeCluster(address: ServerAddress): Promise<ClusterClient> {
  let clients: { readonly Cluster: new (...args: object[]) => ClusterClient };
  try {
    clients = (requirePeer('ioredis') ?? (await import('ioredis'))) as typeof clients;
  } catch (failure) {
    throw missingPeer(failure, 'ioredis', 'The doctor connects to a cluster with');
  }
  const client = new clients.Cluster([{ host: address.host, port: address.port }], {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    redisOptions: { ...loginOf(address), connectTimeout: CONNECT_TIMEOUT_MS },
  });
  // Each check reports its own failure.
  client.on('error', () => undefined);
  return client;
}
