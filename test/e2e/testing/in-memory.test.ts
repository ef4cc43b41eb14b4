import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  IdempotencyModule,
  IdempotencyReconciler,
  IdempotencyService,
  IdempotencyStore,
  Idempotent,
  type IdempotentCall,
} from 'nestjs-idempotency';
import {
  PostgresUnitOfWork,
  type OpenTransaction,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import { memoryStore } from 'nestjs-idempotency/memory';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import {
  IdempotencyTestClock,
  IdempotencyTestingModule,
  IdempotencyTestRecords,
  type IdempotencyTestingOptions,
} from 'nestjs-idempotency/testing';
import { startShop, testShop, type Shop } from './support/shop.js';

const options: IdempotencyTestingOptions = { caller: { anonymous: 'shared' } };

/** Created once, as in an application's test file; each application still has its own records. */
const inMemory = IdempotencyTestingModule.inMemory(options);

describe('IdempotencyTestingModule.inMemory()', () => {
  let shop: Shop;
  let records: IdempotencyTestRecords;
  let clock: IdempotencyTestClock;
  beforeEach(async () => {
    shop = await startShop(testShop(inMemory));
    records = shop.app.get(IdempotencyTestRecords);
    clock = shop.app.get(IdempotencyTestClock);
  });
  afterEach(() => shop.close());

  const value = { kind: 'value', value: { nr: 1 } };
  it.each([
    {
      way: 'http',
      operation: 'OrdersController.create',
      outcome: { kind: 'response', status: 201, headers: expect.anything(), body: { nr: 1 } },
    },
    {
      way: 'message',
      operation: 'OrdersConsumer.price',
      outcome: { kind: 'value', value: [{ nr: 1 }] },
    },
    {
      way: 'socket',
      operation: 'OrdersGateway.order',
      outcome: { kind: 'value', value: [{ event: 'ordered', data: { nr: 1 } }] },
    },
    { way: 'graphql', operation: 'OrdersResolver.pay', outcome: { kind: 'value', value: 1 } },
    { way: 'method', operation: 'InvoiceService.send', outcome: value },
    { way: 'call', operation: 'remind', outcome: value },
  ])('protects $way, and shows its records', async ({ way, operation, outcome }) => {
    const run = shop.ways[way]!;
    const responses = [await run('one'), await run('one'), await run('one'), await run('two')];
    expect(responses).toEqual([{ nr: 1 }, { nr: 1 }, { nr: 1 }, { nr: 2 }]);
    expect(shop.ledger.charges).toHaveLength(2);
    expect(shop.ledger.charges[0]).toMatchObject({ by: way, operation, isProtected: true });
    const [first, second, ...others] = await records.list();
    // A document may have more than one field.
    const field = way === 'graphql' ? 'pay ' : '';
    expect(first).toEqual({
      ...{ operation, key: `${field}one`, scope: first!.scope, state: 'completed' },
      ...{ attempt: 1, takeovers: 0, executions: 1, replays: 2, outcome },
    });
    expect(second).toMatchObject({ key: `${field}two`, executions: 1, replays: 0 });
    expect(others).toEqual([]);
  });

  it('requires a key', async () => {
    expect((await shop.post('/orders', undefined)).status).toBe(400);
    expect(await records.list()).toEqual([]);
  });

  it('clears all records', async () => {
    await shop.ways.http!('one');
    records.abandon('one');
    records.clear();
    expect(await records.list()).toEqual([]);
    expect(await shop.ways.http!('one')).toEqual({ nr: 2 });
    expect(shop.ledger.charges[1]).toMatchObject({ attempt: 1, isTakeover: false });
    expect(await records.list()).toMatchObject([{ executions: 1, replays: 0 }]);
  });

  it('expires records without a wait', async () => {
    await shop.ways.http!('one');
    await clock.advance(86_400_000 - 60_000);
    expect(await shop.ways.http!('one')).toEqual({ nr: 1 });
    await clock.advance(60_000);
    expect(await records.list()).toEqual([]);
    expect(await shop.ways.http!('one')).toEqual({ nr: 2 });
  });

  it.each([-1, 0.5, NaN, '1' as never])('does not advance its clock by %s', async (ms) => {
    await expect(clock.advance(ms)).rejects.toThrow('The option "ms" must be an integer from 0');
  });

  it('leaves the record of a process that died', async () => {
    records.abandon('one');
    expect(await shop.ways.http!('two')).toEqual({ nr: 1 });
    expect(await shop.ways.http!('one')).toEqual({ nr: 2 });
    expect(await shop.ways.http!('one')).toEqual({ nr: 2 });
    expect(shop.ledger.charges).toMatchObject([
      { attempt: 1, isTakeover: false },
      { attempt: 2, isTakeover: true },
    ]);
    expect((await records.list())[1]).toMatchObject({ attempt: 2, takeovers: 1, executions: 1 });
    // Time has not passed for other records.
    await clock.advance(86_400_000 - 5_000);
    expect(await shop.ways.http!('two')).toEqual({ nr: 1 });
  });

  it('leaves it also for a key with an outcome', async () => {
    await shop.ways.http!('one');
    await shop.ways.http!('one');
    records.abandon('one');
    expect(await shop.ways.http!('one')).toEqual({ nr: 2 });
    expect(shop.ledger.charges[1]).toMatchObject({ attempt: 2, isTakeover: true });
    const counts = { attempt: 2, takeovers: 1, executions: 1, replays: 0 };
    expect(await records.list()).toMatchObject([counts]);
  });

  it('has separate records in every application', async () => {
    await shop.ways.http!('one');
    const other = await startShop(testShop(inMemory));
    try {
      expect(await other.ways.http!('one')).toEqual({ nr: 1 });
      expect(other.ledger.charges).toHaveLength(1);
      expect(await other.app.get(IdempotencyTestRecords).list()).toHaveLength(1);
      expect(await shop.ways.http!('one')).toEqual({ nr: 1 });
      expect(shop.ledger.charges).toHaveLength(1);
    } finally {
      await other.close();
    }
  });
});

describe('the records', () => {
  const call: IdempotentCall = { operation: 'send', key: 'k', scope: ['tenant', 7] };

  async function service(more: IdempotencyTestingOptions = {}) {
    const imports = [IdempotencyTestingModule.inMemory(more)];
    const module = await (await Test.createTestingModule({ imports }).compile()).init();
    const list = async () => module.get(IdempotencyTestRecords).list();
    return { module, list, calls: module.get(IdempotencyService) };
  }

  it('are in progress while the operation runs, and released when it has thrown', async () => {
    const { module, calls, list } = await service();
    const failing = calls.run(call, async () => {
      expect(await list()).toEqual([
        {
          ...{ operation: 'send', key: 'k', scope: ['tenant', 7], state: 'in_progress' },
          ...{ attempt: 1, takeovers: 0, executions: 1, replays: 0, outcome: undefined },
        },
      ]);
      throw new Error('no mail today');
    });
    await expect(failing).rejects.toThrow('no mail today');
    expect(await list()).toMatchObject([{ state: 'released', outcome: undefined }]);
    await calls.run(call, () => 'sent');
    expect(await list()).toMatchObject([{ state: 'completed', attempt: 2, executions: 2 }]);
    await module.close();
  });

  it('show failures that are kept', async () => {
    const { module, calls, list } = await service();
    const failing = calls.run({ ...call, outcome: () => true }, () => {
      throw new TypeError('no mail ever');
    });
    await expect(failing).rejects.toThrow('no mail ever');
    const [record] = await list();
    expect(record).toMatchObject({ state: 'failed', outcome: { kind: 'failure' } });
    expect(record!.outcome).toHaveProperty('error.failure', {
      name: 'TypeError',
      message: 'no mail ever',
    });
    await module.close();
  });

  it('show values by the codec of the module, and none by another one', async () => {
    const codec = messagePackCodec();
    const { module, calls, list } = await service({ outcome: { codec } });
    await calls.run(call, () => new Map([[1, 2n]]));
    expect(await list()).toMatchObject([{ outcome: { value: new Map([[1, 2n]]) } }]);
    await module.close();
    const other = await service();
    await other.calls.run({ ...call, outcome: { codec } }, () => new Map());
    expect(await other.list()).toMatchObject([{ state: 'completed', outcome: undefined }]);
    await other.module.close();
  });

  it('do not count the outcome of onTakeover as an execution', async () => {
    const { module, calls, list } = await service({
      lease: { onTakeover: () => ({ value: 'found' }) },
    });
    module.get(IdempotencyTestRecords).abandon('k');
    expect(await calls.run(call, () => 'sent again')).toBe('found');
    expect(await list()).toMatchObject([{ executions: 0, outcome: { value: 'found' } }]);
    await module.close();
  });

  it('decide how a retry ends: it runs again when they are cleared, expired or abandoned', async () => {
    const { module, calls, list } = await service();
    const records = module.get(IdempotencyTestRecords);
    let runs = 0;
    const run = () => calls.run(call, () => (runs += 1));
    await run();
    await run();
    expect(await list()).toMatchObject([{ executions: 1, replays: 1 }]);
    records.clear();
    expect(await run()).toBe(2);
    await module.get(IdempotencyTestClock).advance(86_400_000);
    expect(await run()).toBe(3);
    records.abandon('k');
    expect(await run()).toBe(4);
    await module.close();
  });

  it("are not taken over with onTakeover: 'reject'", async () => {
    const { module, calls } = await service({ lease: { onTakeover: 'reject' } });
    module.get(IdempotencyTestRecords).abandon('k');
    const rejected = calls.run(call, () => 'sent again');
    await expect(rejected).rejects.toMatchObject({ code: 'idempotency_outcome_unknown' });
    await module.close();
  });

  it('are not taken over from a running attempt, however far the clock is advanced', async () => {
    const { module, calls } = await service();
    const running = calls.run(call, async () => {
      await module.get(IdempotencyTestClock).advance(60_000);
      const duplicate = calls.run(call, () => 'sent twice');
      await expect(duplicate).rejects.toMatchObject({ code: 'idempotency_in_progress' });
      return 'sent';
    });
    expect(await running).toBe('sent');
    expect(await calls.run(call, () => 'sent twice')).toBe('sent');
    await module.close();
  });

  it('can be used by the application itself, like those of another store', async () => {
    const { module } = await service();
    expect(await module.get(IdempotencyReconciler).reconcile()).toMatchObject({});
    expect(module.get(IdempotencyStore)).toBeInstanceOf(IdempotencyStore);
    await module.close();
  });

  it('take part in no transaction, which the start reports', async () => {
    class NoDatabase extends PostgresUnitOfWork {
      run<Result>(
        _: TransactionOptions,
        work: (transaction: OpenTransaction) => Promise<Result>,
      ): Promise<Result> {
        return work({ handle: {}, query: () => Promise.resolve([]) });
      }
    }
    @Injectable()
    class Transfers {
      @Idempotent({ key: (id: string) => id, transaction: true })
      async transfer(_id: string): Promise<void> {
        return Promise.resolve();
      }
    }
    const imports = [IdempotencyTestingModule.inMemory({ unitOfWork: new NoDatabase() })];
    const module = await Test.createTestingModule({ imports, providers: [Transfers] }).compile();
    await expect(module.init()).rejects.toThrow('"transaction" needs a "store" in the database');
    await module.close();
  });
});

describe('in place of the application’s own module', () => {
  /** As in `app.module.ts`: Nest finds the module to override by this very object. */
  const idempotency = IdempotencyModule.forRootAsync({
    useFactory: () => {
      throw new Error('the store of production');
    },
  });

  @Injectable()
  class Mailer {
    sent = 0;

    @Idempotent({ key: (id: string) => id })
    async send(_id: string): Promise<number> {
      this.sent += 1;
      return Promise.resolve(this.sent);
    }
  }

  @Module({ imports: [idempotency], providers: [Mailer] })
  class AppModule {}

  it.each([
    ['passThrough', IdempotencyTestingModule.passThrough(), 2],
    ['inMemory', IdempotencyTestingModule.inMemory(), 1],
  ])('%s() overrides it', async (_, replacement, sent) => {
    const module = await Test.createTestingModule({ imports: [AppModule] })
      .overrideModule(idempotency)
      .useModule(replacement)
      .compile();
    await module.init();
    const mailer = module.get(Mailer);
    await mailer.send('one');
    await mailer.send('one');
    expect(mailer.sent).toBe(sent);
    await module.close();
  });

  it('is visible only in modules that import it, when it is not global', async () => {
    const replacement = IdempotencyTestingModule.passThrough({ isGlobal: false });

    @Module({ imports: [replacement], providers: [Mailer], exports: [Mailer] })
    class MailModule {}

    const module = await Test.createTestingModule({ imports: [MailModule] }).compile();
    expect(await module.get(Mailer).send('one')).toBe(1);
    await module.close();
    @Module({ providers: [Mailer] })
    class BlindModule {}

    const apart = await Test.createTestingModule({ imports: [replacement, BlindModule] }).compile();
    await expect(apart.init()).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringContaining('import IdempotencyTestingModule.passThrough()'),
    });
  });

  it('notices what the memory store itself clears', async () => {
    const store = memoryStore();
    const imports = [IdempotencyModule.forRoot({ store })];
    const module = await Test.createTestingModule({ imports, providers: [Mailer] }).compile();
    await module.init();
    const mailer = module.get(Mailer);
    await mailer.send('one');
    store.clear();
    expect(store.size).toBe(0);
    expect(await mailer.send('one')).toBe(2);
    await module.close();
  });
});
