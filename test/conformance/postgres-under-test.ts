import type { Pool } from 'pg';
import { fromPg } from 'nestjs-idempotency/pg';
import {
  PostgresIdempotencyStore,
  migrate,
  type PostgresExecutor,
} from 'nestjs-idempotency/postgres';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import { loadStatements, TableName } from '../support/internals/postgres.js';
import { withSqlClock } from '../support/clocks/injected-clock.js';
import { openPostgresPool } from '../support/postgres/postgres-pool.js';
import type { PostgresUnderTest } from '../support/postgres/postgres-servers.js';
import { usePostgres, type UsedPostgres } from '../support/postgres/use-postgres.js';

const statements = loadStatements(new TableName(), (text) =>
  withSqlClock(text, '(SELECT at FROM clock_of_the_conformance_kit)'),
);
const START_MS = 1_900_000_000_000;

/** What an application opens. */
interface LentConnections {
  readonly executor: PostgresExecutor;
  close(): Promise<unknown>;
}

/** The conformance kit's harness over one version of PostgreSQL. */
export class PostgresHarness {
  #pool: Promise<Pool> | undefined;
  #lent: Promise<LentConnections> | undefined;

  readonly #postgres: UsedPostgres;

  /**
   * @param prepare - runs on the table before anything is stored in it.
   * @param lend - opens the connections of the stores. Without it, they are those of the pool that sets the clock.
   */
  constructor(
    private readonly version: Pick<PostgresUnderTest, 'name' | 'shared'>,
    private readonly prepare: (pool: Pool) => Promise<void> = () => Promise.resolve(),
    private readonly lend?: (url: string) => Promise<LentConnections>,
  ) {
    this.#postgres = usePostgres(version);
  }

  /** With a clock that the kit drives. */
  get underTest(): StoreUnderTest {
    return {
      name: `PostgresIdempotencyStore on ${this.version.name}`,
      create: async () => {
        const pool = await this.#opened();
        let now = START_MS;
        const set = async (ms: number) => {
          now = ms;
          await pool.query('UPDATE clock_of_the_conformance_kit SET at = to_timestamp($1)', [
            (now + 0.517) / 1000,
          ]);
        };
        await set(now);
        const client = (await this.#lent)?.executor ?? pool;
        const store = new PostgresIdempotencyStore({ client, statements });
        const clock = { now: () => now, step: (ms: number) => set(now + ms) };
        return { store, clock, dispose: () => store.close() };
      },
    };
  }

  /** Runs the shipped statements: for the cases that do not need a driven clock. */
  get onItsOwnClock(): StoreUnderTest {
    return {
      name: `PostgresIdempotencyStore on ${this.version.name} and the server's own clock`,
      hasSteppableClock: false,
      create: async () => {
        const pool = await this.#opened();
        const client = (await this.#lent)?.executor ?? pool;
        const store = new PostgresIdempotencyStore({ client });
        return { store, dispose: () => store.close() };
      },
    };
  }

  /** The same, with a journal. */
  get withJournal(): StoreUnderTest {
    return {
      name: `PostgresIdempotencyStore on ${this.version.name} with a journal`,
      hasSteppableClock: false,
      create: async () => {
        const client = await this.#opened();
        const journal = { service: 'kit', version: '1' };
        const store = new PostgresIdempotencyStore({ client, journal });
        await store.migrate();
        return { store, dispose: () => store.close() };
      },
    };
  }

  async close(): Promise<void> {
    await (await this.#lent)?.close();
    await (await this.#pool)?.end();
  }

  #opened(): Promise<Pool> {
    return (this.#pool ??= this.#open());
  }

  async #open(): Promise<Pool> {
    const url = await this.#postgres.newDatabase();
    const pool = openPostgresPool(url);
    this.#lent = this.lend?.(url);
    await migrate({ executor: fromPg(pool) });
    await this.prepare(pool);
    await pool.query('CREATE TABLE clock_of_the_conformance_kit AS SELECT now() AS at');
    return pool;
  }
}
