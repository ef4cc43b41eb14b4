import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, it, jest } from '@jest/globals';
import { Cluster } from 'ioredis';
import { createPool } from 'mysql2/promise';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { fromMysql2 } from 'nestjs-idempotency/mysql2';
import { PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { afterTest } from '../../support/jest/after-test.js';
import { useMysql } from '../../support/mysql/use-mysql.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { watchedPool } from '../../support/postgres/watched-pool.js';
import { RedisCluster } from '../../support/redis/redis-cluster.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { beginCommand } from '../../support/stores/commands.js';

/** More than a store reads at once. */
const RECORDS = 700;
const TIMEOUT_MS = 10_000;
const PAGE = { limit: 2_000, maxScanned: 5_000, timeoutMs: TIMEOUT_MS };
const COMMANDS = 'tracing:ioredis:command:start';

const redis = useRedis();
const cluster = useServer(() => RedisCluster.start({ replicas: 0 }));
const postgres = usePostgres();
const mysql = useMysql();

/** Opens a store that calls `onRead` for each of its reads of a list. */
type Open = (onRead: () => void) => IdempotencyStore | Promise<IdempotencyStore>;

function onScan(onRead: () => void): void {
  const seen = (message: unknown) => {
    if ((message as { command: string }).command === 'scan') onRead();
  };
  subscribe(COMMANDS, seen);
  afterTest(() => unsubscribe(COMMANDS, seen));
}

const PLACES: readonly (readonly [string, Open])[] = [
  [
    'Redis',
    (onRead) => {
      onScan(onRead);
      const store = redisStore({ url: redis.url });
      afterTest(() => store.close());
      return store;
    },
  ],
  [
    'Redis Cluster',
    (onRead) => {
      onScan(onRead);
      const client = new Cluster(cluster.addresses);
      afterTest(() => client.disconnect());
      return redisStore({ client });
    },
  ],
  [
    'PostgreSQL',
    async (onRead) => {
      const pool = openPostgresPool(await postgres.newDatabase());
      afterTest(() => pool.end());
      const client = watchedPool(pool, ({ text }, result) => {
        if (text.includes('string_agg')) onRead();
        return result;
      });
      const store = new PostgresIdempotencyStore({ client });
      await store.migrate();
      return store;
    },
  ],
  [
    'MySQL',
    async (onRead) => {
      const pool = createPool({ uri: await mysql.newDatabase() });
      afterTest(() => pool.end());
      const executor = fromMysql2(pool);
      let isListing = false;
      const store = mysqlStore({
        executor: {
          name: 'mysql2',
          getConnection: (received) => {
            if (isListing) onRead();
            executor.getConnection(received);
          },
        },
      });
      await store.migrate();
      const list = store.list.bind(store);
      store.list = (command) => {
        isListing = true;
        return list(command);
      };
      return store;
    },
  ],
];

it.each(PLACES)(
  'A page of a list on %s ends at half of its time, and the next one goes on',
  async (_, open) => {
    let takesMs = 0;
    let passed = 0;
    let reads = 0;
    const store = await open(() => {
      reads += 1;
      passed += takesMs;
    });
    const begins = Array.from({ length: RECORDS }, () => beginCommand({ timeoutMs: 30_000 }));
    const left = begins.values();
    const worker = async () => {
      for (const begin of left) await store.begin(begin);
    };
    await Promise.all(Array.from({ length: 20 }, worker));

    const now = performance.now.bind(performance);
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + passed);
    afterTest(() => clock.mockRestore());
    const listed = async () => {
      const keys = new Set<string>();
      const readsOfPages: number[] = [];
      let cursor: string | undefined;
      do {
        reads = 0;
        const page = await store.list({ ...PAGE, cursor });
        for (const { recordKey } of page!.records) keys.add(recordKey);
        cursor = page!.cursor;
        readsOfPages.push(reads);
      } while (cursor !== undefined);
      const missing = begins.filter(({ recordKey }) => !keys.has(recordKey));
      expect(missing).toEqual([]);
      return readsOfPages;
    };

    const [all] = await listed();
    expect(all).toBeGreaterThan(1);
    takesMs = TIMEOUT_MS * 0.3;
    const pages = await listed();
    expect(pages.length).toBeGreaterThan(0.5 * all! - 1);
    expect(Math.max(...pages)).toBe(2);
  },
);
