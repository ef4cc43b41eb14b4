import type { EntityManager } from '@mikro-orm/mysql';
import { PrismaMariaDb } from '@prisma/adapter-mariadb';
import { sql } from 'drizzle-orm';
import { drizzle as openDrizzle, type MySql2Database } from 'drizzle-orm/mysql2';
import { mysqlTable, varchar } from 'drizzle-orm/mysql-core';
import { sql as sql1 } from 'drizzle-orm-1';
import {
  drizzle as openDrizzle1,
  type MySql2Database as MySql2Database1,
} from 'drizzle-orm-1/mysql2';
import { mysqlTable as mysqlTable1, varchar as varchar1 } from 'drizzle-orm-1/mysql-core';
import openKnex, { type Knex } from 'knex';
import type { Transaction as KyselyTransaction } from 'kysely';
import { createPool as createCallbackPool } from 'mysql2';
import { createPool } from 'mysql2/promise';
import { drizzleUnitOfWork, type DrizzleTransaction } from 'nestjs-idempotency/drizzle';
import { knexUnitOfWork } from 'nestjs-idempotency/knex';
import { kyselyUnitOfWork } from 'nestjs-idempotency/kysely';
import { mikroOrmUnitOfWork } from 'nestjs-idempotency/mikro-orm';
import { mysql2UnitOfWork, type Mysql2Transaction } from 'nestjs-idempotency/mysql2';
import { prismaUnitOfWork } from 'nestjs-idempotency/prisma';
import { sequelizeUnitOfWork } from 'nestjs-idempotency/sequelize';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import { typeOrmUnitOfWork } from 'nestjs-idempotency/typeorm';
import { Sequelize, type Transaction as SequelizeTransaction } from 'sequelize';
import {
  DataSource,
  EntitySchema as TypeOrmSchema,
  type EntityManager as TypeOrmManager,
} from 'typeorm';
import {
  loadPrismaClient,
  type EffectsTransaction,
} from '../../../support/postgres/prisma/generate-client.js';
import { effectModel } from '../adapters/sequelize.js';

/** An application's library on MySQL, with a pool of at most `connections`. */
export type OpenOnMysql<Handle> = (
  url: string,
  connections: number,
) => Promise<OpenedOnMysql<Handle>>;

export interface OpenedOnMysql<Handle> {
  readonly unitOfWork: UnitOfWork<Handle>;
  /** Inserts the row `id` into the table `effects`, by the library's own means. */
  readonly insert: (handle: Handle, id: string) => Promise<unknown>;
  /** Sends a statement as it is. */
  readonly send: (handle: Handle, text: string) => Promise<unknown>;
  /** The library's own transaction within that of the handle, or a savepoint by hand. */
  readonly nest: (handle: Handle, work: (inner: Handle) => Promise<unknown>) => Promise<unknown>;
  /** Tries to commit by the library's own means, where the handle has them. */
  readonly commit?: (handle: Handle) => Promise<unknown>;
  close(): Promise<unknown>;
}

interface Tables {
  effects: { id: string };
}

const mysql2: OpenOnMysql<Mysql2Transaction> = async (url, connections) => {
  const pool = createPool({ uri: url, connectionLimit: connections });
  return {
    unitOfWork: mysql2UnitOfWork(pool),
    insert: (transaction, id) => transaction.execute('INSERT INTO effects VALUES (?)', [id]),
    send: (transaction, text) => transaction.query(text),
    nest: bySavepoint((transaction, text) => transaction.query(text)),
    close: () => pool.end(),
  };
};

const TypeOrmEffect = new TypeOrmSchema<{ id: string }>({
  name: 'Effect',
  tableName: 'effects',
  columns: { id: { type: 'varchar', length: 64, primary: true } },
});

const typeorm: OpenOnMysql<TypeOrmManager> = async (url, poolSize) => {
  const dataSource = new DataSource({ type: 'mysql', url, poolSize, entities: [TypeOrmEffect] });
  await dataSource.initialize();
  return {
    unitOfWork: typeOrmUnitOfWork(dataSource),
    insert: (manager, id) => manager.insert(TypeOrmEffect, { id }),
    send: (manager, text) => manager.query(text),
    nest: (manager, work) => manager.transaction(work),
    close: () => dataSource.destroy(),
  };
};

const prisma: OpenOnMysql<EffectsTransaction> = async (url, connectionLimit) => {
  const PrismaClient = await loadPrismaClient('mysql');
  const { hostname: host, port, username: user, password, pathname } = new URL(url);
  const place = { host, port: Number(port), user, password, database: pathname.slice(1) };
  // MySQL prepares no SAVEPOINT.
  const adapter = new PrismaMariaDb({ ...place, connectionLimit }, { useTextProtocol: true });
  const client = new PrismaClient({ adapter });
  return {
    unitOfWork: prismaUnitOfWork(client),
    insert: async (transaction, id) => transaction.effect.create({ data: { id } }),
    send: async (transaction, text) => transaction.$queryRawUnsafe(text),
    nest: bySavepoint(async (transaction, text) => transaction.$queryRawUnsafe(text)),
    close: () => client.$disconnect(),
  };
};

type KyselyPackage = Pick<typeof import('kysely'), 'Kysely' | 'MysqlDialect' | 'sql'>;

/** @param load - one of its versions. */
export function kyselyBy(
  load: () => Promise<KyselyPackage>,
): OpenOnMysql<KyselyTransaction<Tables>> {
  return async (url, connectionLimit) => {
    const { Kysely, MysqlDialect, sql: raw } = await load();
    const pool = createCallbackPool({ uri: url, connectionLimit });
    const db = new Kysely<Tables>({ dialect: new MysqlDialect({ pool }) });
    return {
      unitOfWork: kyselyUnitOfWork(db),
      insert: (transaction, id) => transaction.insertInto('effects').values({ id }).execute(),
      send: (transaction, text) => raw.raw(text).execute(transaction),
      nest: bySavepoint((transaction, text) => raw.raw(text).execute(transaction)),
      close: () => db.destroy(),
    };
  };
}

const kysely = kyselyBy(() => import('kysely'));

const effects = mysqlTable('effects', { id: varchar({ length: 64 }).primaryKey() });

const drizzle: OpenOnMysql<DrizzleTransaction<MySql2Database>> = async (url, connectionLimit) => {
  const pool = createPool({ uri: url, connectionLimit });
  return {
    unitOfWork: drizzleUnitOfWork(pool, (connection) => openDrizzle(connection)),
    insert: (transaction, id) => transaction.insert(effects).values({ id }),
    send: (transaction, text) => transaction.execute(sql.raw(text)),
    nest: (transaction, work) => transaction.transaction(work),
    close: () => pool.end(),
  };
};

const effects1 = mysqlTable1('effects', { id: varchar1({ length: 64 }).primaryKey() });

const drizzle1: OpenOnMysql<DrizzleTransaction<MySql2Database1>> = async (url, connectionLimit) => {
  const pool = createPool({ uri: url, connectionLimit });
  return {
    unitOfWork: drizzleUnitOfWork(pool, (client) => openDrizzle1({ client })),
    insert: (transaction, id) => transaction.insert(effects1).values({ id }),
    send: (transaction, text) => transaction.execute(sql1.raw(text)),
    nest: (transaction, work) => transaction.transaction(work),
    close: () => pool.end(),
  };
};

/** It reports every lost connection. */
const silent = { warn: () => undefined, error: () => undefined };

const knex: OpenOnMysql<Knex.Transaction> = async (url, max) => {
  const db = openKnex({ client: 'mysql2', connection: url, pool: { min: 0, max }, log: silent });
  return {
    unitOfWork: knexUnitOfWork(db),
    insert: async (transaction, id) => transaction('effects').insert({ id }),
    send: async (transaction, text) => transaction.raw(text),
    nest: (transaction, work) => transaction.transaction(work),
    commit: (transaction) => transaction.commit(),
    close: () => db.destroy(),
  };
};

type MikroOrmPackage = Pick<typeof import('@mikro-orm/mysql'), 'EntitySchema' | 'MikroORM'>;

/** @param load - one of its versions. */
export function mikroOrmBy(load: () => Promise<MikroOrmPackage>): OpenOnMysql<EntityManager> {
  return async (url, max) => {
    const { EntitySchema, MikroORM } = await load();
    const Effect = new EntitySchema<{ id: string }>({
      name: 'Effect',
      tableName: 'effects',
      properties: { id: { type: 'string', length: 64, primary: true } },
    });
    const quiet = { logger: () => undefined, pool: { min: 0, max } };
    const orm = await MikroORM.init({ clientUrl: url, entities: [Effect], ...quiet });
    return {
      unitOfWork: mikroOrmUnitOfWork(orm),
      insert: (em, id) => em.insert(Effect, { id }),
      send: (em, text) => em.execute(text),
      nest: (em, work) => em.transactional(work),
      commit: (em) => em.commit(),
      close: () => orm.close(true),
    };
  };
}

const mikroOrm = mikroOrmBy(() => import('@mikro-orm/mysql'));

const sequelize: OpenOnMysql<SequelizeTransaction> = async (url, max) => {
  const opened = new Sequelize(url, { logging: false, pool: { max } });
  const Effect = effectModel(opened);
  return {
    unitOfWork: sequelizeUnitOfWork(opened),
    insert: (transaction, id) => Effect.create({ id }, { transaction }),
    send: (transaction, text) => opened.query(text, { transaction }),
    nest: (transaction, work) => opened.transaction({ transaction }, work),
    commit: (transaction) => transaction.commit(),
    close: () => opened.close(),
  };
};

/** For libraries without transactions in transactions. */
function bySavepoint<Handle>(send: OpenedOnMysql<Handle>['send']): OpenedOnMysql<Handle>['nest'] {
  return async (handle, work) => {
    await send(handle, 'SAVEPOINT inner_one');
    try {
      await work(handle);
    } catch (error) {
      await send(handle, 'ROLLBACK TO SAVEPOINT inner_one');
      throw error;
    }
  };
}

export const mysqlAdapters = {
  ...{ mysql2, typeorm, prisma, kysely, drizzle, drizzle1 },
  ...{ knex, mikroOrm, sequelize },
};

export type MysqlAdapterName = keyof typeof mysqlAdapters;

export const mysqlAdapterNames = Object.keys(mysqlAdapters) as MysqlAdapterName[];

/** Erases the type of the handle: only functions of the same adapter receive it. */
export function openOnMysql(name: MysqlAdapterName): OpenOnMysql<unknown> {
  return mysqlAdapters[name] as unknown as OpenOnMysql<unknown>;
}
