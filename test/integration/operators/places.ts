import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { requireIdempotencyTransaction } from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import type { PostgresUnitOfWork } from 'nestjs-idempotency/transactions';
import { Redis } from 'ioredis';
import { withClock, withSqlClock } from '../../support/clocks/injected-clock.js';
import { loadStatements, TableName } from '../../support/internals/postgres.js';
import { ioredisLink, loadScripts, RedisIdempotencyStore } from '../../support/internals/redis.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { CLOCK_OF_SCRIPTS, setClock, START_MS } from '../../support/redis/scripts.js';
import type { Mutation } from '../differential/mutants.js';

interface Handle {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** A store whose clock the test drives, and where effects are counted. */
export interface Place {
  readonly store: IdempotencyStore;
  readonly unitOfWork?: PostgresUnitOfWork<Handle>;
  readonly now: () => number;
  readonly pass: (ms: number) => Promise<void>;
  /** An effect of the operation of that key: in the transaction of the call, if it has one. */
  readonly effect: (key: string, isTransactional: boolean) => Promise<void>;
  readonly effects: (key: string) => Promise<number>;
  readonly close: () => Promise<void>;
}

export function memoryPlace(
  open: (options: { now: () => number }) => MemoryIdempotencyStore = memoryStore,
): Promise<Place> {
  let now = START_MS;
  const made = new Map<string, number>();
  return Promise.resolve({
    store: open({ now: () => now }),
    now: () => now,
    pass: (ms) => {
      now += ms;
      return Promise.resolve();
    },
    effect: (key) => Promise.resolve(void made.set(key, (made.get(key) ?? 0) + 1)),
    effects: (key) => Promise.resolve(made.get(key) ?? 0),
    close: () => Promise.resolve(),
  });
}

export async function redisPlace(url: string, mutate: Mutation = unchanged): Promise<Place> {
  const client = new Redis(url);
  let now = START_MS;
  const set = (ms: number) => setClock(client, (now = ms) * 1_000 + 517);
  await set(now);
  const scripts = loadScripts((text, name) => withClock(mutate(name, text), CLOCK_OF_SCRIPTS));
  const ledger = `effects:${String(process.hrtime.bigint())}`;
  return {
    store: new RedisIdempotencyStore({ link: () => ioredisLink(client), scripts }),
    now: () => now,
    pass: (ms) => set(now + ms),
    effect: async (key) => {
      await client.hincrby(ledger, key, 1);
    },
    effects: async (key) => Number((await client.hget(ledger, key)) ?? 0),
    close: () => {
      client.disconnect();
      return Promise.resolve();
    },
  };
}

export async function postgresPlace(url: string, mutate: Mutation = unchanged): Promise<Place> {
  await migrate({ url });
  // Nothing of it has to survive the server.
  const pool = openPostgresPool(url, { options: '-c synchronous_commit=off' });
  await pool.query('CREATE TABLE clock_of_the_test AS SELECT to_timestamp(0) AS at');
  await pool.query('CREATE TABLE effects (key text NOT NULL)');
  let now = START_MS;
  const set = async (ms: number) => {
    now = ms;
    await pool.query('UPDATE clock_of_the_test SET at = to_timestamp($1)', [(ms + 0.517) / 1_000]);
  };
  await set(now);
  const statements = loadStatements(new TableName(), (text, file) =>
    withSqlClock(mutate(file, text), '(SELECT at FROM clock_of_the_test)'),
  );
  return {
    store: new PostgresIdempotencyStore({ client: pool, statements }),
    unitOfWork: pgUnitOfWork(pool),
    now: () => now,
    pass: (ms) => set(now + ms),
    effect: async (key, isTransactional) => {
      const on = isTransactional ? requireIdempotencyTransaction<Handle>() : pool;
      await on.query('INSERT INTO effects VALUES ($1)', [key]);
    },
    effects: async (key) => {
      const { rowCount } = await pool.query('SELECT 1 FROM effects WHERE key = $1', [key]);
      return rowCount ?? 0;
    },
    close: () => pool.end(),
  };
}

function unchanged(_file: string, text: string): string {
  return text;
}
