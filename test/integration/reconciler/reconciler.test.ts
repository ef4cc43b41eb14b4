import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  type BeforeApplicationShutdown,
  Controller,
  Injectable,
  type OnModuleInit,
  Post,
} from '@nestjs/common';
import {
  currentIdempotencyContext,
  type IdempotencyContext,
  type IdempotencyModuleOptions,
  IdempotencyOptionsError,
  IdempotencyReconciler,
  type IdempotencyStore,
  Idempotent,
  type Recover,
  type Recovery,
  StoreConfigurationError,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { abandon, type AbandonedCall, LEASE_MS, recordOf } from '../../support/engine/abandon.js';
import { millisecondsOf, RECONCILE, resolveGroup } from '../../support/internals/core.js';
import { DrivenClock } from '../../support/internals/testing.js';
import { projectRoot } from '../../support/project-root.js';
import { FaultyStore, misconfigured, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { reconcilingApp, type ReconcilingApp } from './support/reconciling-app.js';

describe('rounds', () => {
  const AFTER_MS = 60_000;

  /** The business data: what was done, by key. */
  @Injectable()
  class Ledger {
    readonly done = new Map<string, unknown>();
  }

  const lookUp: Recover = (context, services) => {
    const { done } = services.get(Ledger);
    return done.has(context.key) ? { value: done.get(context.key) } : 'run';
  };

  @Controller()
  class Payments {
    @Post('payments')
    @Idempotent({ operation: 'payments.charge', lease: { onTakeover: lookUp } })
    charge() {
      return { charged: true };
    }

    @Post('mails')
    @Idempotent({ operation: 'mails.send' })
    send() {
      return { sent: true };
    }
  }

  let now: number;
  let store: MemoryIdempotencyStore;
  let app: ReconcilingApp | undefined;

  beforeEach(() => {
    now = Date.UTC(2026, 0, 1);
    store = memoryStore({ now: () => now });
  });
  afterEach(async () => {
    await app?.nest.close();
    app = undefined;
  });

  async function started(options: object = {}, on: IdempotencyStore = store) {
    const reconcile = { interval: 86_400_000, after: AFTER_MS, ...options };
    app = await reconcilingApp(
      { store: on, reconcile, limits: { shutdownTimeout: 0 } },
      { controllers: [Payments], providers: [Ledger] },
    );
    return { ...app, ledger: app.nest.get(Ledger) };
  }

  const untilLeftBehind = () => (now += LEASE_MS + AFTER_MS);

  const NOTHING = { completed: 0, released: 0, overtaken: 0, failed: 0, unknown: 0 };
  const never = () => {
    throw new Error('the operation must not run');
  };

  describe('A round of the reconciler', () => {
    it('completes a call with the recovered value, which every retry gets', async () => {
      const { reconciler, service, ledger, events } = await started();
      reconciler.register('settle', { lease: { onTakeover: lookUp } });
      const { operation, key } = await abandon(store, 'settle');
      ledger.done.set(key, { settled: 7 });
      untilLeftBehind();
      expect(await reconciler.reconcile()).toEqual({
        ...NOTHING,
        completed: 1,
        coverage: 'complete',
      });
      expect(events).toMatchObject([
        { type: 'takeover' },
        { type: 'recovered' },
        { type: 'completed' },
        { type: 'ended', how: 'recovered', transport: undefined },
        { type: 'reconciled', report: { completed: 1 } },
      ]);
      const call = { operation, key, scope: 'alice', lease: { onTakeover: lookUp } };
      expect(await service.run<unknown>(call, never)).toEqual({ settled: 7 });
    });

    it('releases a call without an effect: a retry runs at once, as a takeover', async () => {
      const { reconciler, service, events } = await started();
      reconciler.register('settle', { lease: { onTakeover: lookUp } });
      const { operation, key } = await abandon(store, 'settle');
      untilLeftBehind();
      expect(await reconciler.reconcile()).toEqual({
        ...NOTHING,
        released: 1,
        coverage: 'complete',
      });
      expect(events.map(({ type }) => type)).toEqual([
        'takeover',
        'released',
        'ended',
        'reconciled',
      ]);
      const context = await service.run(
        { operation, key, scope: 'alice' },
        ({ attempt, isTakeover }) => ({ attempt, isTakeover }),
      );
      expect(context).toEqual({ attempt: 3, isTakeover: true });
    });

    it('stores that a route is done, but not its value, which is not a response', async () => {
      const { reconciler, ledger } = await started();
      const payment = await abandon(store, 'payments.charge');
      ledger.done.set(payment.key, { cardNumber: 'private' });
      untilLeftBehind();
      expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
      const record = await recordOf(store, payment);
      expect(record).toMatchObject({ state: 'completed', outcome: { header: '[1]' } });
      expect(record?.outcome?.body).toHaveLength(0);
    });

    it('finds the record of a dead owner after the clock stepped back, without a longer wait', async () => {
      const { reconciler, ledger } = await started();
      const payment = await abandon(store, 'payments.charge');
      ledger.done.set(payment.key, {});
      now -= 24 * 3_600_000;
      expect(await reconciler.reconcile()).toEqual({ ...NOTHING, coverage: 'complete' });
      untilLeftBehind();
      expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
    });

    it('skips a record until `after` after the end of its lease', async () => {
      const { reconciler } = await started();
      const payment = await abandon(store, 'payments.charge');
      now += LEASE_MS + AFTER_MS - 1;
      expect(await reconciler.reconcile()).toEqual({ ...NOTHING, coverage: 'complete' });
      expect(await recordOf(store, payment)).toMatchObject({ state: 'in_progress', attempt: 1 });
      now += 1;
      expect(await reconciler.reconcile()).toMatchObject({ released: 1 });
    });

    it('skips and counts records without a known recovery', async () => {
      const { reconciler, events } = await started();
      const records = [
        await abandon(store, 'mails.send'),
        await abandon(store, 'of another service'),
      ];
      untilLeftBehind();
      const report = { ...NOTHING, unknown: 2, coverage: 'complete' };
      expect(await reconciler.reconcile()).toEqual(report);
      for (const record of records) {
        expect(await recordOf(store, record)).toMatchObject({ state: 'in_progress', attempt: 1 });
      }
      expect(events).toMatchObject([{ type: 'reconciled', report: { unknown: 2 } }]);
    });

    it('provides the context of the attempt to the recovery and the code it calls', async () => {
      const { reconciler } = await started();
      const asked: [IdempotencyContext, IdempotencyContext | undefined][] = [];
      const onTakeover = (context: IdempotencyContext): Recovery => {
        asked.push([{ ...context }, currentIdempotencyContext()]);
        return 'run';
      };
      reconciler.register('settle', { lease: { onTakeover } });
      const { key, lease } = await abandon(store, 'settle');
      untilLeftBehind();
      await reconciler.reconcile();
      const [[context, below] = []] = asked;
      const expected = { operation: 'settle', key, scope: ['alice'], attempt: 2, isTakeover: true };
      expect(context).toMatchObject(expected);
      expect(below).toMatchObject(expected);
      expect(context?.fencingToken).toBeGreaterThan(lease.fence);
    });

    it('fences the previous owner of the record', async () => {
      const { reconciler } = await started();
      const { lease } = await abandon(store, 'payments.charge');
      untilLeftBehind();
      await reconciler.reconcile();
      const extend = { leaseMs: LEASE_MS, recordRetentionMs: 1_000_000, timeoutMs: 1_000 };
      expect(await store.extend(lease, extend)).toEqual({ kind: 'lost' });
    });

    it('continues after a recovery that throws, releases its key, and reports it', async () => {
      const { reconciler, events, log } = await started();
      const error = new Error('the provider is down');
      const onTakeover = ({ key }: IdempotencyContext): Recovery => {
        if (key === 'a') throw error;
        return { value: key };
      };
      reconciler.register('settle', { lease: { onTakeover } });
      const [a, b] = [await abandon(store, 'settle', 'a'), await abandon(store, 'settle', 'b')];
      untilLeftBehind();
      expect(await reconciler.reconcile()).toEqual({
        ...NOTHING,
        failed: 1,
        completed: 1,
        coverage: 'complete',
      });
      expect((await recordOf(store, a))?.state).toBe('released');
      expect((await recordOf(store, b))?.state).toBe('completed');
      const { recordKey } = a.lease;
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'recovery_failed', operation: 'settle', recordKey, error }),
      );
      // Its message may hold data.
      expect(log.own).toEqual([`warn: recovery_failed in settle, record ${recordKey} (Error)`]);
    });

    it('waits for a recovery at most maxExecution', async () => {
      const { reconciler, events } = await started();
      let signal: AbortSignal | undefined;
      const onTakeover = (context: IdempotencyContext) => {
        signal = context.signal;
        return new Promise<Recovery>(() => undefined);
      };
      const times = { lease: { duration: 1_000, maxExecution: 1_000 } };
      reconciler.register('settle', { ...times, lease: { onTakeover, ...times.lease } });
      await abandon(store, 'settle');
      const payment = await abandon(store, 'payments.charge');
      untilLeftBehind();
      expect(await reconciler.reconcile()).toMatchObject({ failed: 1, released: 1 });
      expect(signal?.aborted).toBe(true);
      expect((await recordOf(store, payment))?.state).toBe('released');
      expect(events.map(({ type }) => type)).toContain('recovery_failed');
    });

    it('does not report a recovery that ends after its timeout', async () => {
      const { reconciler, events } = await started();
      const gate = Gate.closed();
      const onTakeover = async (): Promise<Recovery> => {
        await gate.pass();
        return { value: 'too late' };
      };
      reconciler.register('settle', {
        lease: { onTakeover, duration: 1_000, maxExecution: 1_000 },
      });
      const settled = await abandon(store, 'settle');
      untilLeftBehind();
      expect(await reconciler.reconcile()).toMatchObject({ failed: 1 });
      gate.open();
      await new Promise(setImmediate);
      expect(events.map(({ type }) => type)).not.toContain('recovered');
      expect((await recordOf(store, settled))?.state).toBe('released');
    });

    it('skips a record that a client has taken over since the list', async () => {
      const { reconciler, service, events } = await started();
      const settled = await abandon(store, 'settle');
      await abandon(store, 'payments.charge');
      const gate = Gate.closed();
      const begun = Gate.closed();
      let running: Promise<unknown> | undefined;
      // The client retries after the list was read.
      const list = store.abandoned.bind(store);
      store.abandoned = async (command) => {
        const page = await list(command);
        running = service.run(
          { operation: 'settle', key: settled.key, scope: 'alice' },
          async () => {
            begun.open();
            await gate.pass();
            return 'by the client';
          },
        );
        await begun.pass();
        return page;
      };
      reconciler.register('settle', { lease: { onTakeover: never }, duplicates: 'wait' });
      untilLeftBehind();
      const report = { ...NOTHING, overtaken: 1, released: 1, coverage: 'complete' };
      expect(await reconciler.reconcile()).toEqual(report);
      // The client's attempt will settle it.
      expect(events.map(({ type }) => type)).not.toContain('waited');
      gate.open();
      expect(await running).toBe('by the client');
    });

    it.each(['takeover', 'always'] as const)(
      'does not run a recovery for a record that has expired since the list (recoverOn: %j)',
      async (recoverOn) => {
        const { reconciler } = await started();
        reconciler.register('settle', { lease: { onTakeover: never, recoverOn } });
        const settled = await abandon(store, 'settle');
        const list = store.abandoned.bind(store);
        store.abandoned = async (command) => {
          const page = await list(command);
          now += 365 * 86_400_000;
          return page;
        };
        untilLeftBehind();
        expect(await reconciler.reconcile()).toMatchObject({ overtaken: 1, failed: 0 });
        expect((await recordOf(store, settled))?.state).toBe('released');
      },
    );

    it('yields to a late owner that completes during the recovery', async () => {
      const { reconciler, service, nest } = await started();
      const other = await started();
      const settled = await abandon(store, 'settle');
      untilLeftBehind();
      const onTakeover = async (): Promise<Recovery> => {
        // Another process takes over, because this one was blocked for longer than its lease, and completes.
        now += LEASE_MS;
        const call = { operation: 'settle', key: settled.key, scope: 'alice' };
        await other.service.run(call, () => 'first');
        return { value: 'second' };
      };
      reconciler.register('settle', { lease: { onTakeover } });
      expect(await reconciler.reconcile()).toMatchObject({ overtaken: 1 });
      const call = { operation: 'settle', key: settled.key, scope: 'alice' };
      expect(await service.run<unknown>(call, never)).toBe('first');
      await nest.close();
    });

    it('applies the keep policy of a call: an outcome that is not kept is released', async () => {
      const { reconciler } = await started();
      reconciler.register('settle', {
        lease: { onTakeover: () => ({ value: 1 }) },
        outcome: () => false,
      });
      const settled = await abandon(store, 'settle');
      untilLeftBehind();
      expect(await reconciler.reconcile()).toMatchObject({ released: 1 });
      expect((await recordOf(store, settled))?.state).toBe('released');
    });

    it.each([
      ['has no JSON form', 7n],
      ['is larger than outcome.maxBytes', 'x'.repeat(2 ** 20)],
    ])('stores that the operation is done when the value %s', async (_, value) => {
      const { reconciler, service } = await started();
      reconciler.register('settle', { lease: { onTakeover: () => ({ value }) } });
      const { key } = await abandon(store, 'settle');
      untilLeftBehind();
      expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
      const repeated = service.run({ operation: 'settle', key, scope: 'alice' }, never);
      await expect(repeated).rejects.toMatchObject({ code: 'idempotency_response_not_kept' });
    });

    it('keeps the recovered value for the retention of its operation', async () => {
      const { reconciler } = await started();
      reconciler.register('settle', {
        lease: { onTakeover: () => ({ value: 1 }) },
        outcome: { retention: 5_000 },
      });
      const settled = await abandon(store, 'settle');
      untilLeftBehind();
      await reconciler.reconcile();
      expect(await recordOf(store, settled)).toMatchObject({ retentionLeftMs: 5_000 });
    });
  });

  describe('A batch', () => {
    it('bounds a round; the next one continues after it, past unknown records', async () => {
      const { reconciler } = await started({ batchSize: 10 });
      for (let i = 0; i < 25; i += 1) await abandon(store, i < 20 ? 'unknown' : 'payments.charge');
      untilLeftBehind();
      const reports = [];
      do reports.push(await reconciler.reconcile());
      while (reports.at(-1)?.coverage === 'partial');
      const lookedUp = reports.map(({ unknown, released }) => unknown + released);
      expect(lookedUp).toEqual([10, 10, 5]);
      expect(reports.reduce((sum, { released }) => sum + released, 0)).toBe(5);
      // The next round starts from the beginning again.
      expect((await reconciler.reconcile()).unknown).toBe(10);
    });

    it('ends when the store is down; the next round handles the same records', async () => {
      const faulty = new FaultyStore(store);
      const { reconciler } = await started({}, faulty);
      for (let i = 0; i < 3; i += 1) await abandon(store, 'payments.charge');
      untilLeftBehind();
      // The round's lock, then the first record.
      const healthy = <Reply>(execute: () => Promise<Reply>) => execute();
      faulty.next('begin', healthy, healthy, unavailable);
      expect(await reconciler.reconcile()).toEqual({
        ...NOTHING,
        released: 1,
        coverage: 'partial',
      });
      expect(await reconciler.reconcile()).toEqual({
        ...NOTHING,
        released: 2,
        coverage: 'complete',
      });
    });
  });

  describe('A store that is down', () => {
    it("prevents the recovery, even with whenUnavailable: 'execute'", async () => {
      const faulty = new FaultyStore(store);
      const { reconciler, events } = await started({}, faulty);
      reconciler.register('settle', {
        lease: { onTakeover: never },
        storeErrors: { whenUnavailable: 'execute' },
      });
      await abandon(store, 'settle');
      untilLeftBehind();
      faulty.next('begin', (execute) => execute(), unavailable);
      expect(await reconciler.reconcile()).toEqual({ ...NOTHING, coverage: 'partial' });
      expect(events).toMatchObject([
        { type: 'store_unavailable', source: 'reconcile' },
        { type: 'rejected' },
        { type: 'reconciled', report: { coverage: 'partial' } },
      ]);
    });

    it('leaves the record for another recovery when the value cannot be stored', async () => {
      const faulty = new FaultyStore(store);
      const { reconciler, events } = await started({}, faulty);
      reconciler.register('settle', {
        lease: { onTakeover: () => ({ value: 1 }) },
        storeErrors: { saveTimeout: 50 },
      });
      await abandon(store, 'settle');
      untilLeftBehind();
      faulty.always(unavailable, 'complete');
      expect(await reconciler.reconcile()).toMatchObject({ failed: 1, completed: 0 });
      expect(events.map(({ type }) => type)).toEqual([
        'takeover',
        'recovered',
        'save_delayed',
        'reconciled',
      ]);
    });
  });

  describe('register()', () => {
    it.each([
      ['settle', undefined, 'IdempotencyReconciler.register()'],
      ['', { lease: { onTakeover: lookUp } }, '"operation"'],
      ['settle', {}, '"lease.onTakeover"'],
      ['settle', { lease: { onTakeover: 'run' } }, '"lease.onTakeover"'],
      ['settle', { lease: { onTakeover: lookUp }, outcome: { keep: true } }, '"outcome.keep"'],
      ['settle', { lease: { onTakeover: lookUp, duration: 1 } }, '"lease.duration"'],
      ['settle', { lease: { onTakeover: lookUp }, scope: 'alice' }, '"scope"'],
      ['payments.charge', { lease: { onTakeover: lookUp } }, 'is registered already'],
    ])('rejects %j with %j', async (operation, call, message) => {
      const { reconciler } = await started();
      const register = () => reconciler.register(operation, call as never);
      expect(register).toThrow(IdempotencyOptionsError);
      expect(register).toThrow(message);
    });

    it('rejects an operation that is already registered', async () => {
      const { reconciler } = await started();
      reconciler.register('settle', { lease: { onTakeover: lookUp } });
      expect(() => reconciler.register('settle', { lease: { onTakeover: lookUp } })).toThrow(
        'is registered already',
      );
    });
  });
});

describe('schedule', () => {
  const OFTEN = { interval: 100, after: 0 };
  const ON_DEMAND = { ...OFTEN, interval: 86_400_000 };
  const DONE = { lease: { onTakeover: (): Recovery => ({ value: 1 }) } };

  let apps: ReconcilingApp[] = [];
  let clock: DrivenClock;
  let now = Date.UTC(2026, 0, 1);

  beforeEach(() => void (clock = new DrivenClock()));
  afterEach(async () => {
    for (const { nest } of apps) await nest.close();
    apps = [];
  });

  async function started(options: IdempotencyModuleOptions, providers: (new () => object)[] = []) {
    const app = await reconcilingApp(options, { providers }, clock);
    apps.push(app);
    return app;
  }

  /** A store with records whose leases have expired. */
  async function abandoned(count: number) {
    const store = new ListingStore({ now: () => now });
    const calls: AbandonedCall[] = [];
    for (let i = 0; i < count; i += 1) calls.push(await abandon(store, 'settle'));
    now += LEASE_MS;
    return { store, calls };
  }

  /** Counts its calls, and the most concurrent ones. */
  class ListingStore extends MemoryIdempotencyStore {
    asked = 0;
    atOnce = 0;
    private asking = 0;

    override async abandoned(...command: Parameters<MemoryIdempotencyStore['abandoned']>) {
      this.asked += 1;
      this.asking += 1;
      this.atOnce = Math.max(this.atOnce, this.asking);
      const page = await super.abandoned(...command);
      await delay(1);
      this.asking -= 1;
      return page;
    }
  }

  /** Advances time until the condition holds. */
  async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await condition())) await clock.advance(20);
  }

  describe('The reconciler', () => {
    it('runs rounds on a schedule, one after the other', async () => {
      const { store, calls } = await abandoned(1);
      const { reconciler } = await started({ store, reconcile: OFTEN });
      reconciler.register('settle', DONE);
      await until(async () => (await recordOf(store, calls[0]!))?.state === 'completed');
      const before = store.asked;
      await until(() => store.asked >= before + 3);
      expect(store.atOnce).toBe(1);
    });

    it('does not run on a schedule by default', async () => {
      const { store, calls } = await abandoned(1);
      const { reconciler } = await started({ store });
      reconciler.register('settle', DONE);
      // It does not even check whether the store can list records.
      expect(store.asked).toBe(0);
      // With its defaults, this record is too young.
      expect(await reconciler.reconcile()).toMatchObject({ completed: 0, coverage: 'complete' });
      now += 300_000;
      expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
      expect((await recordOf(store, calls[0]!))?.state).toBe('completed');
    });

    it('joins the current round when another one is requested', async () => {
      const { store } = await abandoned(1);
      const { reconciler } = await started({
        store,
        reconcile: ON_DEMAND,
      });
      let asked = 0;
      reconciler.register('settle', {
        lease: {
          onTakeover: (): Recovery => {
            asked += 1;
            return { value: 1 };
          },
        },
      });
      const reports = await Promise.all([reconciler.reconcile(), reconciler.reconcile()]);
      expect(reports[0]).toBe(reports[1]);
      expect(asked).toBe(1);
      expect(await reconciler.reconcile()).toMatchObject({ completed: 0 });
    });

    it('skips the round while another process runs one', async () => {
      const { store } = await abandoned(2);
      const gate = Gate.closed();
      const lookingUp = Gate.closed();
      const options = { store, reconcile: ON_DEMAND };
      const [one, other] = [await started(options), await started(options)];
      one.reconciler.register('settle', {
        lease: {
          onTakeover: async (): Promise<Recovery> => {
            lookingUp.open();
            await gate.pass();
            return 'run';
          },
        },
      });
      const first = one.reconciler.reconcile();
      await lookingUp.pass();
      const idle = { completed: 0, released: 0, overtaken: 0, failed: 0, unknown: 0 };
      expect(await other.reconciler.reconcile()).toEqual({ ...idle, coverage: 'already_running' });
      gate.open();
      expect(await first).toMatchObject({ released: 2, coverage: 'complete' });
      expect(await other.reconciler.reconcile()).toMatchObject({ coverage: 'complete' });
      // The lock emits no events.
      expect(other.events).toMatchObject([{ type: 'reconciled' }]);
    });

    it('keeps its lock for as long as its round takes', async () => {
      const store = memoryStore({ now: () => clock.wallTime() });
      await abandon(store, 'settle');
      await clock.advance(LEASE_MS);
      const options = { store, reconcile: ON_DEMAND };
      const [one, other] = [await started(options), await started(options)];
      const gate = Gate.closed();
      const onTakeover = async (): Promise<Recovery> => {
        await gate.pass();
        return { value: 1 };
      };
      one.reconciler.register('settle', { lease: { onTakeover } });
      const round = one.reconciler.reconcile();
      await clock.advance(6 * LEASE_MS);
      expect(await other.reconciler.reconcile()).toMatchObject({ coverage: 'already_running' });
      gate.open();
      expect(await round).toMatchObject({ completed: 1 });
    });

    it('takes over the lock of a process that died', async () => {
      const { store } = await abandoned(1);
      const options = {
        store,
        reconcile: ON_DEMAND,
        limits: { shutdownTimeout: 0 },
      };
      const [one, other] = [await started(options), await started(options)];
      one.reconciler.register('settle', {
        lease: { onTakeover: () => new Promise<Recovery>(() => undefined) },
      });
      other.reconciler.register('settle', DONE);
      void one.reconciler.reconcile();
      await until(() => one.events.length > 0);
      expect(await other.reconciler.reconcile()).toMatchObject({ coverage: 'already_running' });
      // The default lease, without a heartbeat.
      now += 10_000;
      expect(await other.reconciler.reconcile()).toMatchObject({ completed: 1 });
    });

    it('reports a store that is down, and retries', async () => {
      const { store, calls } = await abandoned(1);
      const faulty = new FaultyStore(store);
      const { reconciler, events } = await started({ store: faulty, reconcile: OFTEN });
      reconciler.register('settle', DONE);
      faulty.always(unavailable, 'begin');
      await expect(reconciler.reconcile()).rejects.toThrow(StoreUnavailableError);
      faulty.always(misconfigured, 'begin');
      await expect(reconciler.reconcile()).rejects.toThrow(StoreConfigurationError);
      expect(events).toContainEqual(
        expect.objectContaining({
          type: 'store_unavailable',
          operation: 'nestjs-idempotency/reconcile',
        }),
      );
      // Once for each scheduled round.
      const reported = () => events.filter(({ type }) => type === 'store_unavailable').length;
      const before = reported();
      await until(() => reported() >= before + 2);
      faulty.heal();
      await until(async () => (await recordOf(store, calls[0]!))?.state === 'completed');
    });

    it('ends its round once it has lost its lock, and leaves the rest to the other process', async () => {
      const { store } = await abandoned(3);
      const heartbeats: string[] = [];
      const extend = store.extend.bind(store);
      store.extend = async (...command) => {
        const reply = await extend(...command);
        heartbeats.push(reply.kind);
        return reply;
      };
      const gate = Gate.closed();
      const lookingUp: string[] = [];
      const leaseMs = 300;
      const options = {
        store,
        lease: { duration: leaseMs },
        reconcile: ON_DEMAND,
      };
      const [slow, other] = [await started(options), await started(options)];
      slow.reconciler.register('settle', {
        lease: {
          duration: 60_000,
          onTakeover: async ({ key }): Promise<Recovery> => {
            lookingUp.push(key);
            await gate.pass();
            return { value: key };
          },
        },
      });
      const round = slow.reconciler.reconcile();
      await until(() => lookingUp.length > 0);
      // The slow process has sent no heartbeat for a lease.
      now += leaseMs;
      while ((await other.reconciler.reconcile()).coverage === 'already_running') now += leaseMs;
      await until(() => heartbeats.includes('lost'));
      gate.open();
      expect(await round).toMatchObject({ completed: 1, coverage: 'partial' });
      expect(lookingUp).toHaveLength(1);
    });

    it('uses recoveries that are registered in onModuleInit', async () => {
      const { store, calls } = await abandoned(1);
      @Injectable()
      class Settlements implements OnModuleInit {
        constructor(private readonly reconciler: IdempotencyReconciler) {}

        onModuleInit(): void {
          this.reconciler.register('settle', { lease: { onTakeover: () => ({ value: 1 }) } });
        }
      }
      await started({ store, reconcile: OFTEN }, [Settlements as new () => object]);
      await until(async () => (await recordOf(store, calls[0]!))?.state === 'completed');
    });
  });

  /** Completes the current record once the shutdown has begun; providers are notified first. */
  @Injectable()
  class OpensAtTheEnd implements BeforeApplicationShutdown {
    gate: Gate | undefined;

    beforeApplicationShutdown(): void {
      this.gate?.open();
    }
  }

  describe('The shutdown', () => {
    /** An application that handles the first of its three records. */
    async function inTheMiddle(
      options: Partial<IdempotencyModuleOptions> = {},
      providers: (new () => object)[] = [],
    ) {
      const { store, calls } = await abandoned(3);
      const gate = Gate.closed();
      const app = await reconcilingApp(
        { store, reconcile: ON_DEMAND, ...options },
        { providers },
        clock,
      );
      const lookingUp: string[] = [];
      app.reconciler.register('settle', {
        lease: {
          onTakeover: async ({ key }): Promise<Recovery> => {
            lookingUp.push(key);
            await gate.pass();
            return { value: key };
          },
        },
      });
      // Closing deletes the records of a memory store.
      const states: (string | undefined)[] = [];
      const close = store.close.bind(store);
      store.close = async () => {
        for (const call of calls) states.push((await recordOf(store, call))?.state);
        await close();
      };
      const round = app.reconciler.reconcile();
      await until(() => lookingUp.length > 0);
      return { ...app, gate, round, lookingUp, states };
    }

    it('waits for the current record, and begins no other', async () => {
      const { nest, gate, round, lookingUp, states } = await inTheMiddle({}, [OpensAtTheEnd]);
      nest.get(OpensAtTheEnd).gate = gate;
      await nest.close();
      expect(await round).toMatchObject({ completed: 1, coverage: 'partial' });
      expect(lookingUp).toHaveLength(1);
      expect(states.sort()).toEqual(['completed', 'in_progress', 'in_progress']);
    });

    it('does not wait for ever', async () => {
      const { nest, gate, round, states } = await inTheMiddle({
        limits: { shutdownTimeout: 50 },
      });
      await nest.close();
      expect(states).toEqual(['in_progress', 'in_progress', 'in_progress']);
      gate.open();
      await round;
    });

    it('ends the schedule: no further round begins', async () => {
      const { store } = await abandoned(1);
      const { nest, reconciler } = await reconcilingApp({ store, reconcile: OFTEN }, {}, clock);
      await until(() => store.asked > 1);
      await nest.close();
      const { asked } = store;
      await clock.advance(3 * OFTEN.interval);
      expect(store.asked).toBe(asked);
      expect(await reconciler.reconcile()).toMatchObject({ coverage: 'already_running' });
    });
  });

  describe('The option "reconcile"', () => {
    const rejection = (options: object) => started({ store: memoryStore(), ...options });

    it.each([
      ['yes', '"reconcile"'],
      [[], '"reconcile"'],
      [{ intervalMs: 100 }, '"reconcile.intervalMs" is not an option'],
      [{ interval: 99 }, `"reconcile.interval" must be a duration from '100ms' to '24h'`],
      [{ interval: 86_400_001 }, '"reconcile.interval"'],
      [{ batchSize: 0 }, '"reconcile.batchSize" must be an integer from 1 to 10000'],
      [{ batchSize: 10_001 }, '"reconcile.batchSize"'],
      [{ after: -1 }, `"reconcile.after" must be a duration from '0ms' to '24h'`],
      [{ after: 1.5 }, '"reconcile.after"'],
    ])('stops the start when it is %j', async (reconcile, message) => {
      await expect(rejection({ reconcile })).rejects.toThrow(IdempotencyOptionsError);
      await expect(rejection({ reconcile })).rejects.toThrow(message);
    });

    it.each([true, false, undefined, {}, { batchSize: undefined }])(
      'accepts %j',
      async (reconcile) => {
        await expect(rejection({ reconcile })).resolves.toBeDefined();
      },
    );

    it('has the documented defaults', () => {
      const page = readFileSync(join(projectRoot, 'docs/guides/recovery.md'), 'utf8');
      const rows = [...page.matchAll(/^\| `(interval|batchSize|after)` +\| `'?(\w+)'?`/gm)];
      const defaults = rows.map(([, name = '', value]) => [
        name,
        millisecondsOf(value) ?? Number(value),
      ]);
      expect(Object.fromEntries(defaults)).toEqual(resolveGroup('reconcile', RECONCILE));
    });

    class WithoutList extends MemoryIdempotencyStore {
      override abandoned() {
        return Promise.resolve(undefined as never);
      }
    }

    it('stops the start with a store that cannot list; a requested round throws the same', async () => {
      const rejected = started({ store: new WithoutList(), reconcile: true });
      await expect(rejected).rejects.toThrow('has no abandoned()');
      const { reconciler, events } = await started({ store: new WithoutList() });
      await expect(reconciler.reconcile()).rejects.toThrow(IdempotencyOptionsError);
      expect(events).toEqual([]);
    });

    it('stops the start with a store that can never list, but not with one that is down', async () => {
      class Failing extends MemoryIdempotencyStore {
        constructor(private readonly fault: typeof unavailable) {
          super();
        }
        override abandoned() {
          return this.fault(() => Promise.resolve({ records: [] }));
        }
      }
      const rejected = started({ store: new Failing(misconfigured), reconcile: true });
      await expect(rejected).rejects.toThrow(StoreConfigurationError);
      await expect(
        started({ store: new Failing(unavailable), reconcile: true }),
      ).resolves.toBeDefined();
    });
  });
});
