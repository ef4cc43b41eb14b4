import type { Pool } from 'mysql2/promise';
import { IdempotencyModule } from 'nestjs-idempotency';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { fromMysql2, mysql2UnitOfWork } from 'nestjs-idempotency/mysql2';

// #region module
export const idempotency = IdempotencyModule.forRoot({
  service: 'shop',
  store: mysqlStore({ url: process.env.DATABASE_URL }), // mysql://user:password@host:3306/shop
});
// #endregion

// #region transactions
/** The store has its own connections: handlers that wait for a transaction leave it some. */
export const transactional = (pool: Pool) =>
  IdempotencyModule.forRoot({
    service: 'shop',
    store: mysqlStore({ url: process.env.DATABASE_URL }),
    unitOfWork: mysql2UnitOfWork(pool),
  });
// #endregion

// #region executor
/** Drizzle and Kysely take such a pool, too. */
export const storeOnMysql2 = (pool: Pool) => mysqlStore({ executor: fromMysql2(pool) });
// #endregion
