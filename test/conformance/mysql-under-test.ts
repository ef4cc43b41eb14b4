import { createPool, type Pool } from 'mysql2/promise';
import { MysqlIdempotencyStore, type MysqlExecutor } from 'nestjs-idempotency/mysql';
import { fromMysql2 } from 'nestjs-idempotency/mysql2';
import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import { loadMysqlStatements, MysqlTable } from '../support/internals/mysql.js';
import { withMysqlClock } from '../support/clocks/injected-clock.js';
import type { MysqlInstallation } from '../support/mysql/installations.js';
import { useMysql, type UsedMysql } from '../support/mysql/use-mysql.js';

const statements = loadMysqlStatements(new MysqlTable(), (text) =>
  withMysqlClock(text, '(SELECT at FROM clock_of_the_conformance_kit)'),
);
const START_MS = 1_900_000_000_000;

/** The conformance kit's harness over one server. */
export class MysqlHarness {
  #opened: Promise<{ readonly pool: Pool; readonly client: MysqlExecutor }> | undefined;

  readonly #mysql: UsedMysql;

  /** @param installation - of a server of its own; without it, the shared one. */
  constructor(
    private readonly name: string,
    installation?: MysqlInstallation,
  ) {
    this.#mysql = useMysql(installation);
  }

  /** With a clock that the kit drives. */
  get underTest(): StoreUnderTest {
    return {
      name: `MysqlIdempotencyStore on ${this.name}`,
      create: async () => {
        const { pool, client } = await (this.#opened ??= this.#open());
        let now = START_MS;
        const set = async (ms: number) => {
          now = ms;
          await pool.query(
            "UPDATE clock_of_the_conformance_kit SET at = TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')",
            [now * 1_000 + 517],
          );
        };
        await set(now);
        const store = new MysqlIdempotencyStore({ client, statements });
        const clock = { now: () => now, step: (ms: number) => set(now + ms) };
        return { store, clock, dispose: () => store.close() };
      },
    };
  }

  /** Runs the shipped statements: for the cases that do not need a driven clock. */
  get onItsOwnClock(): StoreUnderTest {
    return {
      name: `MysqlIdempotencyStore on ${this.name} and the server's own clock`,
      hasSteppableClock: false,
      create: async () => {
        const { client } = await (this.#opened ??= this.#open());
        const store = new MysqlIdempotencyStore({ client });
        return { store, dispose: () => store.close() };
      },
    };
  }

  async close(): Promise<void> {
    await (await this.#opened)?.pool.end();
  }

  async #open() {
    const pool = createPool(await this.#mysql.newDatabase());
    const client = fromMysql2(pool);
    await new MysqlIdempotencyStore({ client }).migrate();
    await pool.query('CREATE TABLE clock_of_the_conformance_kit (at datetime(6) NOT NULL)');
    await pool.query("INSERT INTO clock_of_the_conformance_kit VALUES ('1970-01-01')");
    return { pool, client };
  }
}
