import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';
import { ioredisLink, ownLink } from '../../stores/redis/ioredis/ioredis-link.js';
import { loadClients, openConnection } from '../../stores/redis/ioredis/own-connection.js';
import { listenToNodes } from '../../stores/redis/ioredis/stream-errors.js';
import type { RedisConnectionOptions } from '../../stores/redis/ioredis/client-types.js';
import { RedisIdempotencyStore } from '../../stores/redis/redis-idempotency-store.js';
import { checkConnectionOptions } from '../../stores/redis/redis-store-options.js';
import type { ServerAddress } from './server-address.js';

export interface RedisDoctorOptions {
  readonly url: string;
  readonly keyPrefix?: string | undefined;
  /** The name of the primary, if the URL is that of a Sentinel. */
  readonly sentinel?: string | undefined;
}

/** What the doctor asks a server, besides the store's own commands. */
export interface AskedRedis {
  info(): Promise<string>;
  call(command: string, ...args: readonly string[]): Promise<unknown>;
  readonly options?: { readonly host?: string; readonly port?: number };
}

interface ClusterClient extends AskedRedis {
  connect(): Promise<unknown>;
  disconnect(): void;
  nodes(role: 'master'): AskedRedis[];
  on(event: string, listener: (argument: object) => void): unknown;
}

/** The store, and the connections that it uses. */
export interface RedisSubject {
  readonly store: RedisIdempotencyStore;
  readonly client: AskedRedis;
  readonly primaries: () => readonly AskedRedis[];
  readonly isCluster: boolean;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 2_000;

function ignore(): void {
  // Each check reports its own failure.
}

/** As `redisStore({ url })` connects. */
export async function openServer(
  { url, keyPrefix, sentinel }: RedisDoctorOptions,
  address: ServerAddress,
): Promise<RedisSubject> {
  const server =
    sentinel === undefined ? { url } : { connection: throughSentinel(address, sentinel) };
  checkConnectionOptions({ ...server, keyPrefix });
  const own = await openConnection({ ...server, onConnectionError: ignore });
  const connect = () => Promise.resolve(ownLink(own));
  const store = new RedisIdempotencyStore({ keyPrefix, connect });
  const client = own.client as unknown as AskedRedis;
  const close = async () => {
    await store.close();
    await own.close();
  };
  return { store, client, primaries: () => [client], isCluster: false, close };
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

/** As an application connects, whose `client` is a Cluster. */
export async function openCluster(
  { keyPrefix }: RedisDoctorOptions,
  address: ServerAddress,
): Promise<RedisSubject> {
  const { Cluster } = await loadClients();
  const client = new Cluster([{ host: address.host, port: address.port }], {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    redisOptions: { ...loginOf(address), connectTimeout: CONNECT_TIMEOUT_MS },
  }) as ClusterClient;
  client.on('error', ignore);
  listenToNodes(client);
  await within(2 * CONNECT_TIMEOUT_MS, client.connect(), nodeClock);
  const store = new RedisIdempotencyStore({ keyPrefix, link: () => ioredisLink(client as never) });
  return {
    store,
    client,
    primaries: () => client.nodes('master'),
    isCluster: true,
    async close() {
      await store.close();
      client.disconnect();
    },
  };
}
