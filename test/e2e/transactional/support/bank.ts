import { afterAll, beforeAll } from '@jest/globals';
import { Client, type Pool } from 'pg';
import { PostgresIdempotencyStore, migrate } from 'nestjs-idempotency/postgres';
import type { PostgresUnitOfWork } from 'nestjs-idempotency/transactions';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import {
  makeListeningClient,
  loadStatements,
  TableName,
} from '../../../support/internals/postgres.js';
import { withSqlClock } from '../../../support/clocks/injected-clock.js';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { embeddedPostgres } from '../../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../../support/postgres/use-postgres.js';
import type { Scenario } from '../../../support/http/scenario.js';
import { CREATE_TRANSFERS, type Transaction } from './transfers.controller.js';

const statements = loadStatements(new TableName(), (text) =>
  withSqlClock(text, '(statement_timestamp() + (SELECT ahead FROM store_clock))'),
);

/** A database with business data and records, and access for a test. */
export interface Bank {
  readonly url: string;
  /** The pool of the application's transactions. */
  readonly pool: Pool;
  readonly unitOfWork: PostgresUnitOfWork<Transaction>;
  /** A connection that is separate from the application's. */
  readonly observer: Client;
  /** A store on a clock that {@link passTime} moves. */
  newStore(): PostgresIdempotencyStore;
  /** Advances the stores' clock. */
  passTime(ms: number): Promise<void>;
  /** The executions of the scenario's key, or of a call's, that were committed. */
  committed(scenario: Pick<Scenario, 'key'>): Promise<number[]>;
  /** Whether a statement of a store waits for a lock. */
  isWaiting(): Promise<boolean>;
  /** Terminates the backends that are idle in a transaction. */
  terminateIdleTransactions(): Promise<number>;
}

/** For the whole test file, or for all tests of a `describe`. */
export function useBank(version = embeddedPostgres): Bank {
  const server = usePostgres(version);
  let url: string;
  let pool: Pool;
  let observer: Client;
  let storePool: Pool;
  let unitOfWork: PostgresUnitOfWork<Transaction>;
  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
    pool = openPostgresPool(url, { application_name: 'bank', max: 30 });
    storePool = openPostgresPool(url);
    unitOfWork = pgUnitOfWork(pool);
    observer = new Client(url);
    await observer.connect();
    await observer.query(CREATE_TRANSFERS);
    await observer.query(`CREATE TABLE store_clock AS SELECT interval '0' AS ahead`);
  });
  afterAll(async () => {
    await observer.end();
    await pool.end();
    await storePool.end();
  });
  return {
    get url() {
      return url;
    },
    get pool() {
      return pool;
    },
    get unitOfWork() {
      return unitOfWork;
    },
    get observer() {
      return observer;
    },
    newStore: () =>
      new PostgresIdempotencyStore({
        client: storePool,
        statements,
        makeListener: () => makeListeningClient({ url }),
      }),
    async passTime(ms) {
      const text = "UPDATE store_clock SET ahead = ahead + $1 * interval '1 millisecond'";
      await observer.query(text, [ms]);
    },
    async committed({ key }) {
      const text = 'SELECT execution FROM transfers WHERE key = $1 ORDER BY execution';
      const { rows } = await observer.query(text, [key]);
      return rows.map(({ execution }) => execution as number);
    },
    async isWaiting() {
      const { rowCount } = await observer.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return rowCount !== 0;
    },
    async terminateIdleTransactions() {
      const { rowCount } = await observer.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'bank' AND state = 'idle in transaction'`,
      );
      return rowCount ?? 0;
    },
  };
}
