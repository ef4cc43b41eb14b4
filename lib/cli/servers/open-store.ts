import { asError } from '../../core/errors/errors.js';
import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';
import { postgresStore } from '../../stores/postgres/index.js';
import { redisStore } from '../../stores/redis/index.js';
import { MAY_BE_DONE, ServerFailure, UsageError } from './failures.js';
import {
  clusterClient,
  CONNECT_TIMEOUT_MS,
  serverClient,
  throughSentinel,
  type CommandClient,
} from './redis-servers.js';
import { isPostgres, ServerAddress } from './server-address.js';

/** Of a store: as the options of `redisStore` and `postgresStore`. */
export interface StoreNames {
  readonly keyPrefix?: string | undefined;
  /** The name of the primary, if the URL is that of a Sentinel. */
  readonly sentinel?: string | undefined;
  readonly schema?: string | undefined;
  readonly table?: string | undefined;
  readonly preparedStatements: boolean;
}

export interface OpenedStore {
  readonly store: IdempotencyStore;
  readonly address: ServerAddress;
  readonly close: () => Promise<void>;
}

/** The store of a URL. Connects only to ask a Redis whether it belongs to a cluster. */
export async function openStore(url: string, names: StoreNames): Promise<OpenedStore> {
  if (isPostgres(url)) {
    const address = new ServerAddress(url, 5432);
    const { schema, table, preparedStatements } = names;
    const store = postgresStore({ url: url.trim(), schema, table, preparedStatements });
    return { store, address, close: () => store.close() };
  }
  const address = new ServerAddress(url, 6379);
  const { keyPrefix, sentinel } = names;
  if (sentinel === undefined && (await isOfCluster(address))) {
    const client = await connected(await clusterClient(address, NEEDS), address);
    const store = redisStore({ client, keyPrefix });
    const close = async () => {
      await store.close();
      client.disconnect();
    };
    return { store, address, close };
  }
  const server =
    sentinel === undefined
      ? { url: url.trim() }
      : { connection: throughSentinel(address, sentinel) };
  // Each command reports its own failure.
  const store = redisStore({ ...server, keyPrefix, onConnectionError: () => undefined });
  return { store, address, close: () => store.close() };
}

const NEEDS = 'The command connects to Redis with';

/** A client of the server, its cluster, or the primary of Sentinels. */
export async function redisClientOf(
  address: ServerAddress,
  sentinel?: string,
): Promise<CommandClient> {
  const isCluster = sentinel === undefined && (await isOfCluster(address));
  const client = isCluster
    ? await clusterClient(address, NEEDS)
    : await serverClient(address, sentinel, NEEDS);
  return connected(client, address);
}

/**
 * A user who may not ask has to be on a single server: a command for another one then fails, and says so.
 * @throws {@link UsageError} for a Sentinel.
 */
async function isOfCluster(address: ServerAddress): Promise<boolean> {
  const info = await infoOf(address);
  if (/^redis_mode:sentinel/m.test(info)) {
    throw new UsageError(
      `${address.shown} is a Sentinel. Add --sentinel with the name of the primary.`,
    );
  }
  return /^cluster_enabled:1/m.test(info);
}

async function infoOf(address: ServerAddress): Promise<string> {
  const client = await serverClient(address, undefined, NEEDS);
  try {
    await within(CONNECT_TIMEOUT_MS, client.connect(), nodeClock);
    return String(await client.call('INFO'));
  } catch {
    return '';
  } finally {
    client.disconnect();
  }
}

async function connected(client: CommandClient, address: ServerAddress): Promise<CommandClient> {
  try {
    await within(2 * CONNECT_TIMEOUT_MS, client.connect(), nodeClock);
    return client;
  } catch (error) {
    client.disconnect();
    const why = address.redact(asError(error).message);
    throw new ServerFailure(`Redis at ${address.shown} cannot be reached: ${why}`, MAY_BE_DONE);
  }
}
