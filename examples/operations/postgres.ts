import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Knex } from 'knex';
import type { Kysely } from 'kysely';
import { IdempotencyModule } from 'nestjs-idempotency';
import { fromDrizzle } from 'nestjs-idempotency/drizzle';
import { fromKnex } from 'nestjs-idempotency/knex';
import { fromKysely } from 'nestjs-idempotency/kysely';
import { fromPg } from 'nestjs-idempotency/pg';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { fromPrisma } from 'nestjs-idempotency/prisma';
import { fromTypeOrm } from 'nestjs-idempotency/typeorm';
import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';
import type { PrismaService } from '../orms/prisma.js';

type Tables = Readonly<Record<string, object>>;

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

// #region executors
/** pg, and any library whose pool you create: `new PrismaPg(pool)`, `new PostgresDialect({ pool })`. */
export const storeOnPg = (pool: Pool) => postgresStore({ executor: fromPg(pool), push: false });

export const storeOnTypeOrm = (dataSource: DataSource) =>
  postgresStore({ executor: fromTypeOrm(dataSource), listenUrl: process.env.DATABASE_URL });

export const storeOnDrizzle = (db: NodePgDatabase & { $client: Pool }) =>
  postgresStore({ executor: fromDrizzle(db), push: false });

export const storeOnKnex = (knex: Knex) => postgresStore({ executor: fromKnex(knex), push: false });

export const storeOnKysely = (db: Kysely<Tables>) =>
  postgresStore({ executor: fromKysely(db), push: false });

export const storeOnPrisma = (prisma: PrismaService) =>
  postgresStore({ executor: fromPrisma(prisma), push: false });
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
