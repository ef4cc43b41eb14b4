import { randomUUID } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, type NestInterceptor, UseInterceptors } from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import {
  currentIdempotencyTransaction,
  type IdempotencyContext,
  IdempotencyService,
  Idempotent,
  requireIdempotencyTransaction,
} from 'nestjs-idempotency';
import { payloadField } from 'nestjs-idempotency/message';
import type { SqlTransaction, TransactionOptions } from 'nestjs-idempotency/transactions';
import { catchError, lastValueFrom, of } from 'rxjs';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { startConsumer } from '../messages/support/start-consumer.js';
import { useBank } from './support/bank.js';
import type { Transaction } from './support/transfers.controller.js';

const bank = useBank();

describe('A transactional call', () => {
  let app: TestApp;
  let service: IdempotencyService;

  beforeAll(async () => {
    app = await startApp({
      platform: 'fastify',
      controllers: [],
      store: bank.newStore(),
      options: {
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
      },
    });
    service = app.nest.get(IdempotencyService, { strict: false });
  });
  afterAll(() => app.close());

  const callOf = (key: string) =>
    ({ operation: 'transfers.book', key, scope: 'alice', transaction: true }) as const;

  async function book({ key, attempt }: IdempotencyContext): Promise<void> {
    const transaction = requireIdempotencyTransaction<Transaction>();
    await transaction.query('INSERT INTO transfers VALUES ($1, $2)', [key, attempt]);
  }

  it("commits the operation's writes together with its outcome", async () => {
    const key = randomUUID();
    const run = () =>
      service.run(callOf(key), async (context) => {
        await book(context);
        return { attempt: context.attempt };
      });
    expect(await run()).toEqual({ attempt: 1 });
    expect(await run()).toEqual({ attempt: 1 });
    expect(await bank.committed({ key })).toEqual([1]);
  });

  it('rolls back when the operation throws, and may run again', async () => {
    const key = randomUUID();
    const failing = service.run(callOf(key), async (context) => {
      await book(context);
      throw new Error('no cover');
    });
    await expect(failing).rejects.toThrow('no cover');
    expect(await bank.committed({ key })).toEqual([]);
    await service.run(callOf(key), book);
    expect(await bank.committed({ key })).toEqual([2]);
  });

  it('rolls back a failure that is kept', async () => {
    const key = randomUUID();
    const failing = () =>
      service.run({ ...callOf(key), outcome: () => true }, async (context) => {
        await book(context);
        throw new Error('no cover');
      });
    await expect(failing()).rejects.toThrow('no cover');
    await expect(failing()).rejects.toMatchObject({ code: 'idempotency_failure_replayed' });
    expect(await bank.committed({ key })).toEqual([]);
  });

  it('rolls back when the value cannot be stored', async () => {
    const key = randomUUID();
    const failing = service.run(callOf(key), async (context) => {
      await book(context);
      return { big: 1n };
    });
    await expect(failing).rejects.toMatchObject({
      code: 'idempotency_value_not_storable',
      message: expect.stringContaining('was rolled back'),
    });
    expect(await bank.committed({ key })).toEqual([]);
  });

  it('reports a conflict as retryable', async () => {
    const key = randomUUID();
    const conflicting = service.run(callOf(key), async (context) => {
      await book(context);
      throw new Error('wrapped', { cause: Object.assign(new Error(), { code: '40P01' }) });
    });
    await expect(conflicting).rejects.toMatchObject({
      code: 'idempotency_transaction_conflict',
      retryable: true,
    });
    expect(await bank.committed({ key })).toEqual([]);
  });

  it('runs again after a conflict, up to "transaction.conflictRetries" times', async () => {
    const key = randomUUID();
    let runs = 0;
    const run = (conflicts: number) =>
      service.run({ ...callOf(key), transaction: { conflictRetries: 1 } }, async (context) => {
        runs += 1;
        await book(context);
        if (runs <= conflicts) throw Object.assign(new Error(), { code: '40001' });
        return runs;
      });
    await expect(run(2)).rejects.toMatchObject({ code: 'idempotency_transaction_conflict' });
    expect(runs).toBe(2);
    expect(await run(3)).toBe(4);
    // The runs of one attempt.
    expect(await bank.committed({ key })).toEqual([2]);
  });

  it('runs again after a conflict at the commit, as often in total', async () => {
    let commits = 0;
    let failing = 2;
    const unitOfWork = working(async (work, opened) => {
      const result = await work(opened);
      commits += 1;
      if (commits <= failing) throw Object.assign(new Error(), { code: '40001' });
      return result;
    });
    await withUnitOfWork(unitOfWork, async (calls) => {
      const key = randomUUID();
      let runs = 0;
      const run = () =>
        calls.run({ ...callOf(key), transaction: { conflictRetries: 1 } }, async (context) => {
          runs += 1;
          await book(context);
          return runs;
        });
      await expect(run()).rejects.toMatchObject({ code: 'idempotency_transaction_conflict' });
      expect(runs).toBe(2);
      expect(await bank.committed({ key })).toEqual([]);
      failing = commits + 1;
      expect(await run()).toBe(4);
      expect(await bank.committed({ key })).toHaveLength(1);
    });
  });

  it('is not kept if the server ends its transaction, whatever its policy', async () => {
    const key = randomUUID();
    let runs = 0;
    const run = () =>
      service.run({ ...callOf(key), outcome: () => true }, async (context) => {
        runs += 1;
        await book(context);
        if (runs > 1) return runs;
        const transaction = requireIdempotencyTransaction<Transaction>();
        return transaction.query('SELECT pg_terminate_backend(pg_backend_pid())');
      });
    await expect(run()).rejects.toMatchObject({
      code: 'idempotency_store_unavailable',
      retryable: true,
    });
    expect(await run()).toBe(2);
    expect(await bank.committed({ key })).toEqual([2]);
  });

  it('releases the key when the unit of work cannot classify an error', async () => {
    const unitOfWork = Object.create(bank.unitOfWork, {
      isConflict: { value: () => Promise.reject(new Error('planned')) },
      isInterruption: {
        value: () => {
          throw new Error('planned');
        },
      },
    }) as typeof bank.unitOfWork;
    await withUnitOfWork(unitOfWork, async (calls) => {
      const key = randomUUID();
      const failing = calls.run(callOf(key), async (context) => {
        await book(context);
        throw new Error('no cover');
      });
      await expect(failing).rejects.toThrow('no cover');
      await calls.run(callOf(key), book);
      expect(await bank.committed({ key })).toEqual([2]);
    });
  });

  it('removes its listener from a connection that its transaction has released', async () => {
    const connection = new AbortController();
    const unitOfWork = working((work, opened) => work({ ...opened, lost: connection.signal }));
    await withUnitOfWork(unitOfWork, async (calls) => {
      const listeners = () => getEventListeners(connection.signal, 'abort').length;
      await calls.run(callOf(randomUUID()), async (context) => {
        expect(listeners()).toBe(1);
        await book(context);
      });
      const failing = calls.run(callOf(randomUUID()), () => {
        throw new Error('no cover');
      });
      await expect(failing).rejects.toThrow('no cover');
      expect(listeners()).toBe(0);
    });
  });

  type Work = (opened: SqlTransaction) => Promise<unknown>;

  /** The bank's unit of work, with another way to do the work of a transaction. */
  const working = (how: (work: Work, opened: SqlTransaction) => Promise<unknown>) =>
    Object.create(bank.unitOfWork, {
      run: {
        value: (options: TransactionOptions, work: Work) =>
          bank.unitOfWork.run(options, (opened) => how(work, opened)),
      },
    }) as typeof bank.unitOfWork;

  async function withUnitOfWork(
    unitOfWork: typeof bank.unitOfWork,
    use: (calls: IdempotencyService) => Promise<void>,
  ): Promise<void> {
    const own = await startApp({
      platform: 'fastify',
      controllers: [],
      store: bank.newStore(),
      options: {
        unitOfWork,
        storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
        limits: { shutdownTimeout: 1_000 },
      },
    });
    try {
      await use(own.nest.get(IdempotencyService, { strict: false }));
    } finally {
      await own.close();
    }
  }

  it('does not expose a transaction outside its operation', async () => {
    expect(currentIdempotencyTransaction()).toBeUndefined();
    const asking = service.run({ ...callOf(randomUUID()), transaction: false }, () =>
      requireIdempotencyTransaction(),
    );
    await expect(asking).rejects.toMatchObject({ code: 'idempotency_no_transaction' });
    const hooking = service.run({ ...callOf(randomUUID()), transaction: false }, (context) =>
      context.onCommitted(() => undefined),
    );
    await expect(hooking).rejects.toMatchObject({ code: 'idempotency_no_transaction' });
  });

  it('rejects a handle that outlives its transaction', async () => {
    let late: Transaction | undefined;
    await service.run(callOf(randomUUID()), async (context) => {
      late = requireIdempotencyTransaction<Transaction>();
      await book(context);
    });
    await expect(late?.query('SELECT 1')).rejects.toThrow('The transaction is over');
  });
});

const fallingBack: NestInterceptor = {
  intercept: (_, next) => next.handle().pipe(catchError(() => of('fallback'))),
};

let runs = 0;

@Controller()
class Transfers {
  @UseInterceptors(fallingBack)
  @Idempotent({ key: payloadField('key'), message: { consumer: 'transfers' }, transaction: true })
  @MessagePattern('transfers.book')
  async book(@Payload() { key, fails }: { key: string; fails: boolean }) {
    runs += 1;
    await requireIdempotencyTransaction<Transaction>().query(
      'INSERT INTO transfers VALUES ($1, $2)',
      [key, runs],
    );
    if (fails) throw new Error('planned');
    return 'booked';
  }
}

describe('A transactional message handler', () => {
  const consumer = useServer(async () => {
    const options = {
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: await freePort() },
    } as const;
    const app = await startConsumer(options, {
      controllers: [Transfers],
      options: {
        store: bank.newStore(),
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
      },
    });
    const client = ClientProxyFactory.create(options);
    return {
      book: (key: string, fails: boolean) =>
        lastValueFrom(client.send<unknown>('transfers.book', { key, fails })),
      close: async () => {
        await client.close();
        await app.close();
      },
    };
  });

  it.each([
    ['commits its writes with its outcome', false, 'booked', 1],
    [
      'whose error an inner interceptor catches is rolled back, and not run again',
      true,
      'fallback',
      0,
    ],
  ])('%s', async (_, fails, value, rows) => {
    const key = randomUUID();
    const before = runs;
    expect(await consumer.book(key, fails)).toBe(value);
    expect(await bank.committed({ key })).toHaveLength(rows);
    expect(await consumer.book(key, fails)).toBe(value);
    expect(runs).toBe(before + 1);
  });
});
