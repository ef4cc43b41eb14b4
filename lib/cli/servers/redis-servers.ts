import { missingPeer } from '../../core/util/missing-peer.js';
import { requirePeer } from '../../core/util/peers.js';
import type { RedisClient, RedisConnectionOptions } from '../../stores/redis/index.js';
import type { ServerAddress } from './server-address.js';

export const CONNECT_TIMEOUT_MS = 2_000;

/** What is sent to a server, or to a cluster, outside of a store. */
export interface CommandClient extends RedisClient {
  connect(): Promise<unknown>;
  disconnect(): void;
  call(command: string, ...args: string[]): Promise<unknown>;
}

interface Clients {
  readonly Redis: new (options: object) => CommandClient;
  readonly Cluster: new (servers: readonly object[], options: object) => CommandClient;
}

/** Sentinels have users of their own: the URL's is that of the primary. */
export function throughSentinel(address: ServerAddress, name: string): RedisConnectionOptions {
  const { host, port } = address;
  return { sentinels: [{ host, port }], name, ...ownOptions(address) };
}

/** Of the server itself, without its host. */
function ownOptions(address: ServerAddress): RedisConnectionOptions {
  return { db: Number(address.database), ...loginOf(address) };
}

function loginOf({ username, password, isEncrypted }: ServerAddress): RedisConnectionOptions {
  return {
    ...(username !== '' && { username }),
    ...(password !== '' && { password }),
    ...(isEncrypted && { tls: {} }),
  };
}

/** Not connected. @param needs - what connects: the beginning of a sentence. */
export async function serverClient(
  address: ServerAddress,
  sentinel: string | undefined,
  needs: string,
): Promise<CommandClient> {
  const { Redis } = await loadClients(needs);
  const { host, port } = address;
  const server =
    sentinel === undefined
      ? { host, port, ...ownOptions(address) }
      : throughSentinel(address, sentinel);
  const client = new Redis({
    ...server,
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    sentinelRetryStrategy: () => null,
    connectTimeout: CONNECT_TIMEOUT_MS,
  });
  // Each command reports its own failure.
  client.on('error', () => undefined);
  return client;
}

/** As an application does. Not connected. @param needs - what connects: the beginning of a sentence. */
export async function clusterClient(address: ServerAddress, needs: string): Promise<CommandClient> {
  const { Cluster } = await loadClients(needs);
  const client = new Cluster([{ host: address.host, port: address.port }], {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    redisOptions: { ...loginOf(address), connectTimeout: CONNECT_TIMEOUT_MS },
  });
  client.on('error', () => undefined);
  return client;
}

async function loadClients(needs: string): Promise<Clients> {
  try {
    return (requirePeer('ioredis') ?? (await import('ioredis'))) as unknown as Clients;
  } catch (failure) {
    throw missingPeer(failure, 'ioredis', needs);
  }
}
