import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import {
  TransactionAbortedError,
  TransactionOverError,
  typeOrmUnitOfWork,
} from 'nestjs-idempotency/typeorm';
import { DataSource, type EntityManager } from 'typeorm';
import { until } from '../../support/waiting/until.js';
import { Effect, openDataSource, typeorm } from './adapters/typeorm.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork } from './unit-of-work-suite.js';

describeUnitOfWork(typeorm);

describe('typeOrmUnitOfWork', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['the options of a data source', { type: 'postgres' }],
    ['one of another database', { options: { type: 'sqlite' }, createQueryRunner: Math.abs }],
  ])('rejects %s', (_, dataSource) => {
    const create = () => typeOrmUnitOfWork(dataSource as unknown as DataSource);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('a DataSource of TypeORM with type "postgres", "mysql" or "mariadb"');
  });

  describe('on a real server', () => {
    const database = useDatabase();
    let dataSource: DataSource;
    let unitOfWork: UnitOfWork<EntityManager>;

    beforeEach(async () => {
      dataSource = await openDataSource(database.url, 2);
      unitOfWork = typeOrmUnitOfWork(dataSource);
    });
    afterEach(() => dataSource.destroy());

    const run = (work: (manager: EntityManager) => Promise<unknown>) =>
      unitOfWork.run({ isolation: undefined, timeoutMs: 60_000 }, ({ handle }) => work(handle));

    it('throws the reason why it did not commit, and why the handle is over', async () => {
      let late: EntityManager | undefined;
      const careless = run(async (manager) => {
        late = manager;
        await manager.query('SELECT 1/0').catch(() => undefined);
      });
      await expect(careless).rejects.toThrow(TransactionAbortedError);
      expect(() => late?.insert(Effect, { id: 'late' })).toThrow(TransactionOverError);
    });

    it('keeps the writes of a nested transaction, and rolls back only a failed one', async () => {
      await run(async (manager) => {
        await manager.insert(Effect, { id: 'outer' });
        await manager.transaction((nested) => nested.insert(Effect, { id: 'kept' }));
        const failing = manager.transaction(async (nested) => {
          await nested.insert(Effect, { id: 'undone' });
          await nested.insert(Effect, { id: 'outer' });
        });
        await failing.catch(() => undefined);
      });
      expect(await database.effects()).toEqual(['kept', 'outer']);
    });

    it('commits nothing when the work does not wait for a nested transaction', async () => {
      let endNested: (() => void) | undefined;
      let nested: Promise<unknown> | undefined;
      const forgetful = run(async (manager) => {
        await manager.insert(Effect, { id: 'outer' });
        await new Promise<void>((nestedIsOpen) => {
          nested = manager.transaction(async () => {
            nestedIsOpen();
            await new Promise<void>((resolve) => (endNested = resolve));
          });
        });
      });
      await expect(forgetful).rejects.toThrow('A nested transaction was open');
      endNested!();
      await expect(nested).rejects.toThrow();
      expect(await database.effects()).toEqual([]);
      expect(await openTransactions()).toBe(0);
    });

    it('closes the connection when a subscriber prevents the rollback', async () => {
      const failure = new Error('no such customer');
      dataSource.subscribers.push({
        beforeTransactionRollback: () => Promise.reject(new Error('not now')),
      });
      const failing = run(async (manager) => {
        await manager.insert(Effect, { id: 'one' });
        throw failure;
      });
      expect(await failing.catch((error: unknown) => error)).toBe(failure);
      dataSource.subscribers.splice(0);
      await until(async () => (await openTransactions()) === 0);
      expect(await database.effects()).toEqual([]);
    });

    async function openTransactions(): Promise<number> {
      const rows: unknown[] = await dataSource.query(
        `SELECT 1 FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
           AND backend_type = 'client backend'`,
      );
      return rows.length;
    }
  });
});
