import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { EntitySchema, MikroORM } from '@mikro-orm/postgresql';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { mikroOrmUnitOfWork } from 'nestjs-idempotency/mikro-orm';
import { sequelizeUnitOfWork } from 'nestjs-idempotency/sequelize';
import type { SqlTransaction } from 'nestjs-idempotency/transactions';
import { Sequelize, type Transaction } from 'sequelize';
import { mikroOrm } from './adapters/mikro-orm.js';
import { effectModel, openSequelize, sequelize } from './adapters/sequelize.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

describeUnitOfWork(mikroOrm);
describeUnitOfWork(sequelize);

describe('mikroOrmUnitOfWork', () => {
  const Effect = new EntitySchema<{ id: string }>({
    name: 'Effect',
    tableName: 'effects',
    properties: { id: { type: 'text', primary: true } },
  });
  const database = useDatabase();
  let orm: MikroORM;

  beforeEach(async () => {
    orm = await MikroORM.init({ clientUrl: database.url, entities: [Effect], pool: { max: 2 } });
  });
  afterEach(() => orm.close(true));

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['an entity manager', { fork: Math.abs, transactional: Math.abs }],
  ])('rejects %s', (_, value) => {
    const create = () => mikroOrmUnitOfWork(value as unknown as MikroORM);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('a MikroORM 6 or 7 of @mikro-orm/postgresql or @mikro-orm/mysql');
  });

  it('rejects an instance of another database', () => {
    const SqlitePlatform: object = { constructor: { name: 'SqlitePlatform' } };
    const other = { em: Object.create(orm.em) as MikroORM['em'] };
    other.em.getPlatform = () => Object.create(SqlitePlatform) as never;
    expect(() => mikroOrmUnitOfWork(other)).toThrow(IdempotencyOptionsError);
  });

  it('runs nothing where MikroORM opens no transaction', async () => {
    await orm.close(true);
    const without = { clientUrl: database.url, entities: [Effect], disableTransactions: true };
    orm = await MikroORM.init(without);
    let calls = 0;
    const run = mikroOrmUnitOfWork(orm).run(OPTIONS, async () => void (calls += 1));
    await expect(run).rejects.toThrow('remove "disableTransactions"');
    expect(calls).toBe(0);
  });

  it('commits what its handler has not flushed', async () => {
    await mikroOrmUnitOfWork(orm).run(OPTIONS, async ({ handle }) => {
      handle.persist(handle.create(Effect, { id: 'one' }));
      expect(await database.effects()).toEqual([]);
    });
    expect(await database.effects()).toEqual(['one']);
  });

  it('rejects where that flush fails, and commits nothing', async () => {
    const run = mikroOrmUnitOfWork(orm).run(OPTIONS, async ({ handle }) => {
      await handle.insert(Effect, { id: 'one' });
      handle.persist(handle.create(Effect, { id: 'one' }));
    });
    await expect(run).rejects.toThrow('duplicate key');
    expect(await database.effects()).toEqual([]);
  });

  it('has the injected entity manager in its transaction', async () => {
    const failure = new Error('no such customer');
    const run = mikroOrmUnitOfWork(orm).run(OPTIONS, async () => {
      await orm.em.insert(Effect, { id: 'one' });
      await orm.em.getRepository(Effect).insert({ id: 'two' });
      throw failure;
    });
    await expect(run).rejects.toBe(failure);
    expect(await database.effects()).toEqual([]);
  });

  it('lets no repository write after it', async () => {
    const late: (() => Promise<unknown>)[] = [];
    await mikroOrmUnitOfWork(orm).run(OPTIONS, async ({ handle }) => {
      const repository = handle.getRepository(Effect);
      const entity = handle.create(Effect, { id: 'late entity' }, { persist: false });
      late.push(() => repository.insert({ id: 'late' }));
      late.push(() => repository.getEntityManager().persist(entity).flush());
    });
    for (const write of late) await expect(write()).rejects.toThrow();
    expect(late).toHaveLength(2);
    expect(await database.effects()).toEqual([]);
  });
});

describe('sequelizeUnitOfWork', () => {
  const database = useDatabase();
  let opened: Sequelize;

  beforeEach(() => {
    opened = openSequelize(database.url, 1);
  });
  afterEach(() => opened.close());

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['a class', Sequelize],
    ['another dialect', { getDialect: () => 'sqlite', query: Math.abs, transaction: Math.abs }],
  ])('rejects %s', (_, value) => {
    const create = () => sequelizeUnitOfWork(value as unknown as Sequelize);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('an instance of Sequelize 6 with the dialect "postgres" or "mysql"');
  });

  it.each(['commit', 'rollback'] as const)('has no %s for its handler', async (end) => {
    const Effect = effectModel(opened);
    const run = sequelizeUnitOfWork(opened).run(OPTIONS, async ({ handle }) => {
      await Effect.create({ id: 'one' }, { transaction: handle });
      await handle[end]();
    });
    await expect(run).rejects.toThrow('rejects BEGIN, COMMIT and ROLLBACK');
    expect(await database.effects()).toEqual([]);
  });

  it('neither logs its own statements nor repeats them', async () => {
    const logged: string[] = [];
    await opened.close();
    const logging = (text: string) => void logged.push(text);
    opened = new Sequelize(database.url, { logging, retry: { max: 3, match: [/aborted/] } });
    const run = sequelizeUnitOfWork(opened).run(OPTIONS, async (transaction) => {
      const opening = transaction as SqlTransaction<Transaction>;
      await opened.query('SELECT 1/0', { transaction: opening.handle }).catch(() => undefined);
      await opening.query('SELECT $1::text AS secret', ['body']);
    });
    await expect(run).rejects.toThrow('aborted');
    expect(logged.filter((text) => text.includes('secret'))).toEqual([]);
    expect(logged.some((text) => text.includes('SELECT 1/0'))).toBe(true);
  });
});
