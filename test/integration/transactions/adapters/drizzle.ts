import { drizzle as openDrizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';
import {
  drizzle as openDrizzle1,
  type NodePgDatabase as NodePgDatabase1,
} from 'drizzle-orm-1/node-postgres';
import { pgTable as pgTable1, text as text1 } from 'drizzle-orm-1/pg-core';
import {
  type DrizzleTransaction,
  drizzleUnitOfWork,
  fromDrizzle,
} from 'nestjs-idempotency/drizzle';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import type { UnitOfWorkUnderTest } from '../unit-of-work-suite.js';

export const effects = pgTable('effects', { id: text().primaryKey() });
export const schema = { effects };

type Transaction = DrizzleTransaction<NodePgDatabase<typeof schema>>;

export const drizzle: UnitOfWorkUnderTest<Transaction> = {
  name: 'drizzleUnitOfWork',
  reportsLoss: true,
  canCut: true,
  open: async (url, connections) => {
    const pool = openPostgresPool(url, { max: connections });
    return {
      unitOfWork: drizzleUnitOfWork(pool, (client) => openDrizzle(client, { schema })),
      executor: fromDrizzle(openDrizzle(pool)),
      insert: (transaction, id) => transaction.insert(effects).values({ id }),
      close: () => pool.end(),
    };
  },
};

const effects1 = pgTable1('effects', { id: text1().primaryKey() });

export const drizzle1: UnitOfWorkUnderTest<DrizzleTransaction<NodePgDatabase1>> = {
  name: 'drizzleUnitOfWork of Drizzle 1',
  reportsLoss: true,
  canCut: true,
  open: async (url, connections) => {
    const pool = openPostgresPool(url, { max: connections });
    return {
      unitOfWork: drizzleUnitOfWork(pool, (client) => openDrizzle1({ client })),
      insert: (transaction, id) => transaction.insert(effects1).values({ id }),
      close: () => pool.end(),
    };
  },
};
