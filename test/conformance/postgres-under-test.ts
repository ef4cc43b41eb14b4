import type { Pool } from 'pg';
import { PostgresIdempotencyStore, migrate } from 'nestjs-idempotency/postgres';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import { loadStatements } from '../../lib/stores/postgres/sql-statements.js';
import { TableName } from '../../lib/stores/postgres/table-name.js';
import { withSqlClock } from '../support/injected-sql-clock.js';
import { openPostgresPool } from '../support/postgres-pool.js';
import type { PostgresUnderTest } from '../support/postgres-servers.js';

const statements = loadStatements(new TableName(), (text) =>
  withSqlClock(text, '(SELECT at FROM clock_of_the_conformance_kit)'),
);
const START_MS = 1_900_000_000_000;

/** The conformance kit's harness over one version of PostgreSQL. */
export class PostgresHarness {
  #started: Promise<Started> | undefined;

  constructor(private readonly version: PostgresUnderTest) {}

  /** With a clock that the kit drives. */
  get underTest(): StoreUnderTest {
    return {
      name: `PostgresIdempotencyStore on ${this.version.name}`,
      create: async () => {
        const { pool } = await this.#server();
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
  }

  /** The statements as they are shipped: whatever does not ask for a clock that stands still. */
  get onItsOwnClock(): StoreUnderTest {
    return {
      name: `PostgresIdempotencyStore on ${this.version.name} and the server's own clock`,
      hasSteppableClock: false,
      create: async () => {
        const { pool } = await this.#server();
        const store = new PostgresIdempotencyStore({ client: pool });
        return { store, dispose: () => store.close() };
      },
    };
  }

  async stop(): Promise<void> {
    await (await this.#started)?.stop();
  }

  #server(): Promise<Started> {
    return (this.#started ??= start(this.version));
  }
}

interface Started {
  readonly pool: Pool;
  stop(): Promise<void>;
}

async function start(version: PostgresUnderTest): Promise<Started> {
  const server = await version.start();
  const pool = openPostgresPool(await server.newDatabase());
  await migrate({ client: pool });
  await pool.query('CREATE TABLE clock_of_the_conformance_kit AS SELECT now() AS at');
  const stop = async () => {
    await pool.end();
    await server.stop();
  };
  return { pool, stop };
}
