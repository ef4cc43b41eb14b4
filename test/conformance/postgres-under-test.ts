import type { Pool } from 'pg';
import { PostgresIdempotencyStore, migrate } from 'nestjs-idempotency/postgres';
import type { StoreUnderTest } from 'nestjs-idempotency/testing';
import { loadStatements } from '../../lib/stores/postgres/sql-statements.js';
import { TableName } from '../../lib/stores/postgres/table-name.js';
import { withSqlClock } from '../support/injected-sql-clock.js';
import { openPostgresPool } from '../support/postgres-pool.js';
import { startPostgres } from '../support/postgres-server.js';

const statements = loadStatements(new TableName(), (text) =>
  withSqlClock(text, '(SELECT at FROM clock_of_the_conformance_kit)'),
);
const START_MS = 1_900_000_000_000;

let started: Promise<{ pool: Pool; stop: () => Promise<void> }> | undefined;

export const postgresUnderTest: StoreUnderTest = {
  name: 'PostgresIdempotencyStore',
  create: async () => {
    const { pool } = await (started ??= start());
    let now = START_MS;
    const set = async (ms: number) => {
      now = ms;
      await pool.query('UPDATE clock_of_the_conformance_kit SET at = to_timestamp($1)', [
        (now + 0.517) / 1000,
      ]);
    };
    await set(now);
    const store = new PostgresIdempotencyStore({ client: pool, statements });
    const clock = { now: () => now, step: (ms: number) => set(now + ms) };
    return { store, clock, dispose: () => store.close() };
  },
};

/** The statements as they are shipped: whatever does not ask for a clock that stands still. */
export const postgresOnItsOwnClock: StoreUnderTest = {
  name: "PostgresIdempotencyStore on the server's own clock",
  hasSteppableClock: false,
  create: async () => {
    const { pool } = await (started ??= start());
    const store = new PostgresIdempotencyStore({ client: pool });
    return { store, dispose: () => store.close() };
  },
};

export async function stopPostgres(): Promise<void> {
  await (await started)?.stop();
}

async function start(): Promise<{ pool: Pool; stop: () => Promise<void> }> {
  const server = await startPostgres();
  const pool = openPostgresPool(await server.newDatabase());
  await migrate({ client: pool });
  await pool.query('CREATE TABLE clock_of_the_conformance_kit AS SELECT now() AS at');
  const stop = async () => {
    await pool.end();
    await server.stop();
  };
  return { pool, stop };
}
