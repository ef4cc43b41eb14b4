import { Redis } from 'ioredis';
import { createPool, type RowDataPacket } from 'mysql2/promise';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { sqliteStore } from 'nestjs-idempotency/sqlite';
import { Pool } from 'pg';

export interface OpenStore {
  readonly store: IdempotencyStore;
  /** The names under which it keeps its records, if it names them. */
  readonly recordNames: () => Promise<string[]>;
  readonly disconnect: () => void;
}

/** The store that the environment selects. */
export async function openStore({
  STORE,
  REDIS_URL = '',
  DATABASE_URL = '',
  MYSQL_URL = '',
  SQLITE_PATH = '',
}: NodeJS.ProcessEnv): Promise<OpenStore> {
  switch (STORE) {
    case 'redis':
      return onRedis(REDIS_URL, (client) => redisStore({ client }));
    case 'node-redis':
      return onRedis(REDIS_URL, await byNodeRedis(REDIS_URL));
    case 'valkey-glide':
      return onRedis(REDIS_URL, await byGlide(REDIS_URL));
    case 'postgres':
      return onPostgres(DATABASE_URL);
    case 'mysql':
      return onMysql(MYSQL_URL);
    case 'sqlite':
      return onSqlite(SQLITE_PATH);
    default:
      return {
        store: memoryStore(),
        recordNames: () => Promise.resolve([]),
        disconnect: () => undefined,
      };
  }
}

/** @param open - the store, which may send its commands by another client than that of the names. */
function onRedis(url: string, open: (client: Redis) => IdempotencyStore): OpenStore {
  const client = new Redis(url);
  return {
    store: open(client),
    recordNames: () => client.keys('*'),
    disconnect: () => {
      client.disconnect();
    },
  };
}

/** Loaded when selected, as the next one: an application on other versions of Nest has neither package. */
async function byNodeRedis(url: string): Promise<() => IdempotencyStore> {
  const { createClient } = await import('redis');
  const { nodeRedisStore } = await import('nestjs-idempotency/node-redis');
  const client = createClient({ url, disableOfflineQueue: true });
  client.on('error', (error) => {
    console.error(error);
  });
  await client.connect();
  return () => nodeRedisStore({ client });
}

async function byGlide(url: string): Promise<() => IdempotencyStore> {
  const { GlideClient } = await import('@valkey/valkey-glide');
  const { glideStore } = await import('nestjs-idempotency/valkey-glide');
  const { hostname: host, port } = new URL(url);
  // As long as the store waits: see create-app.ts.
  const client = await GlideClient.createClient({
    addresses: [{ host, port: Number(port) }],
    requestTimeout: 5_000,
  });
  return () => glideStore({ client });
}

/** Processes that start at once on one database all migrate it. */
async function onPostgres(url: string): Promise<OpenStore> {
  await migrate({ url });
  const pool = new Pool({ connectionString: url, max: 1 });
  return {
    store: postgresStore({ url }),
    recordNames: async () => {
      const { rows } = await pool.query<{ name: string }>(
        `SELECT concat_ws(' ', encode(record_key, 'escape'), token, fingerprint, origin) AS name
        FROM idempotency_records`,
      );
      return rows.map(({ name }) => name);
    },
    disconnect: () => void pool.end(),
  };
}

/** As on PostgreSQL. */
async function onMysql(url: string): Promise<OpenStore> {
  const store = mysqlStore({ url });
  await store.migrate();
  const pool = createPool({ uri: url, connectionLimit: 1 });
  return {
    store,
    recordNames: async () => {
      const [rows] = await pool.query<RowDataPacket[]>(
        `SELECT CONCAT_WS(' ', CONVERT(record_key USING latin1), token, fingerprint, origin) AS name
        FROM idempotency_records`,
      );
      return rows.map(({ name }) => String(name));
    },
    disconnect: () => void pool.end(),
  };
}

/** The part of `node:sqlite` that reads the names. */
interface NodeSqlite {
  readonly DatabaseSync: new (path: string) => {
    prepare(sql: string): { all(): { readonly name: string }[] };
    close(): void;
  };
}

function onSqlite(path: string): OpenStore {
  return {
    store: sqliteStore({ path, synchronous: 'normal' }),
    recordNames: () => {
      const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as NodeSqlite;
      const database = new DatabaseSync(path);
      const rows = database
        .prepare(
          `SELECT concat_ws(' ', record_key, token, fingerprint, origin) AS name FROM idempotency_records`,
        )
        .all();
      database.close();
      return Promise.resolve(rows.map(({ name }) => name));
    },
    disconnect: () => undefined,
  };
}
