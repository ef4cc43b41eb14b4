import { IdempotencyModule } from 'nestjs-idempotency';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';

// #region module
export const idempotency = IdempotencyModule.forRoot({
  service: 'shop',
  store: postgresStore({ url: process.env.DATABASE_URL }),
});
// #endregion

// #region migrate
export async function prepareDatabase() {
  await migrate({ url: process.env.MIGRATIONS_URL, schema: 'shop' });
}
// #endregion

// #region pgbouncer
export const storeBehindPgBouncer = postgresStore({
  url: process.env.PGBOUNCER_URL,
  preparedStatements: false,
  listenUrl: process.env.DATABASE_URL,
});
// #endregion

interface Metric {
  inc(by: number): void;
  set(value: number): void;
}

// #region deletion
export const storeThatReports = (deletedRecords: Metric, longestBatch: Metric) =>
  postgresStore({
    url: process.env.DATABASE_URL,
    deleteExpired: { interval: '5s', batchSize: 500, pause: '20ms' },
    onDeleted: ({ deleted, longestBatchMs }) => {
      deletedRecords.inc(deleted);
      longestBatch.set(longestBatchMs);
    },
  });
// #endregion
