import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  currentIdempotencyContext,
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyMeter,
  IdempotencyModule,
  IdempotencyReconciler,
  IdempotencyService,
  IdempotencyStore,
  Idempotent,
  type IdempotentCall,
  staticKeys,
} from 'nestjs-idempotency';
import {
  type SqlTransaction,
  PostgresUnitOfWork,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import {
  IdempotencyTestClock,
  IdempotencyTestingModule,
  type IdempotencyTestingOptions,
  IdempotencyTestRecords,
} from 'nestjs-idempotency/testing';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import { Gate } from '../../support/waiting/gate.js';
import { type Shop, startShop, testShop } from './support/shop.js';

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
    await expect(clock.advance(ms)).rejects.toThrow(
      `The option "by" must be a duration from '0ms'`,
    );
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

  it('show outcomes that are compressed and encrypted', async () => {
    const secrets = staticKeys({ current: 'k', keys: { k: Buffer.alloc(32, 7) } });
    const { module, calls, list } = await service({ secrets, outcome: { compression: true } });
    const value = 'sent '.repeat(1_000);
    await calls.run(call, () => value);
    expect(await list()).toMatchObject([{ state: 'completed', outcome: { value } }]);
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

  it('take part in no transaction, which the start reports', async () => {
    class NoDatabase extends PostgresUnitOfWork {
      run<Result>(
        _: TransactionOptions,
        work: (transaction: SqlTransaction) => Promise<Result>,
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
});

const MAX_EXECUTION_MS = 120_000;
const WAIT_MS = 30_000;

const call: IdempotentCall = {
  ...{ operation: 'send', key: 'k', scope: ['alice'] },
  duplicates: { mode: 'wait', timeout: WAIT_MS },
  lease: { duration: LEASE_MS, maxExecution: MAX_EXECUTION_MS },
};

let module: TestingModule | undefined;
afterEach(async () => {
  jest.useRealTimers();
  await module?.close();
  module = undefined;
});

async function started(options: IdempotencyTestingOptions = {}) {
  const imports = [IdempotencyTestingModule.inMemory(options)];
  module = await (await Test.createTestingModule({ imports }).compile()).init();
  const events: IdempotencyEvent[] = [];
  module.get(IdempotencyEvents).subscribe((event) => events.push(event));
  return {
    events,
    clock: module.get(IdempotencyTestClock),
    calls: module.get(IdempotencyService),
    records: module.get(IdempotencyTestRecords),
    store: module.get(IdempotencyStore),
    of: <Type extends IdempotencyEvent['type']>(type: Type) =>
      events.filter(
        (event): event is Extract<IdempotencyEvent, { type: Type }> => event.type === type,
      ),
  };
}

/** An operation that ends when the test says so. */
function held() {
  const gate = Gate.closed();
  const signals: (AbortSignal | undefined)[] = [];
  const run = async () => {
    signals.push(currentIdempotencyContext()?.signal);
    await gate.pass();
    return 'sent';
  };
  return { gate, signals, run };
}

/** How a promise has ended so far. */
function watched(promise: Promise<unknown>): { ended: unknown } {
  const state: { ended: unknown } = { ended: undefined };
  const end = (ended: unknown) => void (state.ended = ended);
  promise.then(end, end);
  return state;
}

describe('advance()', () => {
  it('ends a wait at its own instant, and no earlier', async () => {
    const { clock, calls, of } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    await clock.advance(WAIT_MS - 1_000);
    expect(duplicate.ended).toBeUndefined();
    await clock.advance(1_001);
    expect(duplicate.ended).toMatchObject({ code: 'idempotency_in_progress' });
    expect(of('waited')[0]!.waitedMs).toBeCloseTo(WAIT_MS, 0);
    first.gate.open();
    expect(await running).toBe('sent');
  });

  it('lets heartbeats go on, up to the deadline of the attempt', async () => {
    const { clock, calls, of, records } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    await clock.advance(MAX_EXECUTION_MS - 1_000);
    expect(first.signals[0]).toMatchObject({ aborted: false });
    expect(of('slow_attempt')[0]!.elapsedMs).toBeCloseTo(MAX_EXECUTION_MS / 2, 3);
    expect(await records.list()).toMatchObject([{ state: 'in_progress', takeovers: 0 }]);
    await clock.advance(1_000);
    expect(first.signals[0]).toMatchObject({ aborted: true, reason: 'max_execution' });
    expect(of('lease_lost')).toHaveLength(1);
    first.gate.open();
    await running;
  });

  it('is the clock of the meter, too', async () => {
    const { clock, calls } = await started();
    await clock.advance(3_600_000);
    const first = held();
    const running = calls.run(call, first.run);
    await clock.advance(LEASE_MS);
    first.gate.open();
    await running;
    const { commands } = module!.get(IdempotencyMeter).read().store;
    expect(commands.map(({ command }) => command).sort()).toEqual(['begin', 'complete', 'extend']);
    // Time stands still while a heartbeat is sent.
    const { duration } = commands.find(({ command }) => command === 'extend')!;
    expect(duration).toMatchObject({ count: 3, sum: 0 });
  });

  it('runs the reconciler on its schedule', async () => {
    const { clock, of } = await started({ reconcile: { interval: 60_000 } });
    await clock.advance(60_000);
    expect(of('reconciled')).not.toEqual([]);
    await clock.advance(600_000);
    expect(of('reconciled').length).toBeGreaterThanOrEqual(11);
    expect(of('reconciled').length).toBeLessThanOrEqual(22);
  });

  it('does not wait for operations, and may be called by one', async () => {
    const { clock, calls } = await started();
    const sent = calls.run(call, async () => {
      await clock.advance(60_000);
      return 'sent';
    });
    await clock.advance(60_000);
    expect(await sent).toBe('sent');
  });

  it('moves one step at a time, in the order of its calls', async () => {
    const { clock, calls } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    const [half, whole] = [clock.advance(WAIT_MS / 2), clock.advance(WAIT_MS)];
    await half;
    expect(duplicate.ended).toBeUndefined();
    await whole;
    expect(duplicate.ended).toBeDefined();
    first.gate.open();
    await running;
  });

  it('and fake timers of a test runner both move it', async () => {
    jest.useFakeTimers();
    const { clock, calls } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    await jest.advanceTimersByTimeAsync(WAIT_MS / 2);
    await clock.advance(WAIT_MS / 4);
    expect(duplicate.ended).toBeUndefined();
    await jest.advanceTimersByTimeAsync(WAIT_MS / 4);
    expect(duplicate.ended).toMatchObject({ code: 'idempotency_in_progress' });
    first.gate.open();
    await running;
  });
});

describe('runUntilIdle()', () => {
  it('ends at once when nothing is to be done', async () => {
    const { clock, calls, of } = await started({ reconcile: { interval: 60_000 } });
    await clock.runUntilIdle();
    await calls.run(call, () => 'sent');
    await clock.runUntilIdle();
    expect(of('reconciled')).toEqual([]);
  });

  it('goes on until a duplicate has taken over from a process that died', async () => {
    const { clock, calls, store, of } = await started();
    await abandon(store, call.operation, call.key);
    const waiting = watched(calls.run(call, () => 'sent'));
    await clock.runUntilIdle();
    expect(waiting.ended).toBe('sent');
    expect(of('waited')[0]!.waitedMs).toBeGreaterThan(LEASE_MS / 2);
    expect(of('waited')[0]!.waitedMs).toBeLessThan(LEASE_MS + 1_000);
  });

  it('waits for an operation, and does not move time over it', async () => {
    const { clock, calls, events } = await started();
    const running = watched(calls.run(call, () => delay(20, 'sent')));
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    await clock.runUntilIdle();
    expect([running.ended, duplicate.ended]).toEqual(['sent', 'sent']);
    const types = events.map(({ type }) => type);
    expect(types).not.toContain('slow_attempt');
    expect(types).not.toContain('lease_lost');
  });

  it('goes on until a pause of the library is over', async () => {
    const { clock, store } = await started({ reconcile: { batchSize: 1, after: 0 } });
    await abandon(store, call.operation, 'one');
    await abandon(store, call.operation, 'other');
    await clock.advance(LEASE_MS);
    const round = watched(module!.get(IdempotencyReconciler).reconcile());
    await clock.runUntilIdle();
    expect(round.ended).toMatchObject({ unknown: 1, coverage: 'partial' });
  });

  it('rejects with the name of an operation that does not end', async () => {
    const { clock, calls } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    await expect(clock.runUntilIdle(50)).rejects.toThrow(
      'IdempotencyTestClock.runUntilIdle() ended after 50 ms of real time. Operations that still run: send; that duplicates wait for: none.',
    );
    first.gate.open();
    expect(await running).toBe('sent');
    await clock.runUntilIdle(50);
  });

  it.each([0, 0.5, 'soon' as never])('rejects a limit of %s ms', async (ms) => {
    const { clock } = await started();
    await expect(clock.runUntilIdle(ms)).rejects.toThrow(
      `The option "timeout" must be a duration from '1ms'`,
    );
  });
});
