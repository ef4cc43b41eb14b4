import { Cluster } from 'ioredis';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { sqliteStore } from 'nestjs-idempotency/sqlite';
import type { RedisSettings, StoreSettings } from './settings.js';

/** Connections stay open until the process ends. */
export function openStore(settings: StoreSettings): IdempotencyStore {
  switch (settings.kind) {
    case 'postgres':
      return postgresStore({ url: settings.url, journal: settings.journal ?? false });
    case 'mysql':
      return mysqlStore({ url: settings.url });
    case 'sqlite':
      return sqliteStore({ path: settings.path });
    default:
      return openRedis(settings);
  }
}

function openRedis(settings: RedisSettings): IdempotencyStore {
  const { options = {} } = settings;
  const { connection } = options;
  switch (settings.kind) {
    case 'redis':
      return redisStore({ ...options, url: settings.url });
    case 'sentinel': {
      const { sentinels, name } = settings;
      return redisStore({ ...options, connection: { ...connection, sentinels, name } });
    }
    case 'cluster': {
      const { connection: redisOptions = {}, ...others } = options;
      const client = new Cluster([...settings.nodes], {
        enableAutoPipelining: true,
        enableOfflineQueue: false,
        retryDelayOnClusterDown: 0,
        redisOptions,
      });
      // The commands report failures.
      client.on('error', () => undefined);
      return redisStore({ ...others, client });
    }
  }
}
