import { Injectable, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  IdempotencyOptionsError,
  IdempotencyReconciler,
  StoreConfigurationError,
  StoreUnavailableError,
  type IdempotencyModuleOptions,
  type Recovery,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { RECONCILE, resolveGroup } from '../../support/internals/core.js';
import { DrivenClock } from '../../support/internals/testing.js';
import { FaultyStore, misconfigured, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { projectRoot } from '../../support/project-root.js';
import { abandon, LEASE_MS, recordOf, type AbandonedCall } from '../../support/engine/abandon.js';
import { reconcilingApp, type ReconcilingApp } from './support/reconciling-app.js';

const OFTEN = { intervalMs: 100, afterMs: 0 };

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
    reconciler.register('settle', { lease: { onTakeover: (): Recovery => ({ value: 1 }) } });
    await until(async () => (await recordOf(store, calls[0]!))?.state === 'completed');
    const before = store.asked;
    await until(() => store.asked >= before + 3);
    expect(store.atOnce).toBe(1);
  });

  it('does not run on a schedule by default', async () => {
    const { store, calls } = await abandoned(1);
    const { reconciler } = await started({ store });
    reconciler.register('settle', { lease: { onTakeover: (): Recovery => ({ value: 1 }) } });
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
      reconcile: { ...OFTEN, intervalMs: 86_400_000 },
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
    const options = { store, reconcile: { ...OFTEN, intervalMs: 86_400_000 } };
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
    const options = { store, reconcile: { ...OFTEN, intervalMs: 86_400_000 } };
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
      reconcile: { ...OFTEN, intervalMs: 86_400_000 },
      limits: { shutdownTimeoutMs: 0 },
    };
    const [one, other] = [await started(options), await started(options)];
    one.reconciler.register('settle', {
      lease: { onTakeover: () => new Promise<Recovery>(() => undefined) },
    });
    other.reconciler.register('settle', { lease: { onTakeover: (): Recovery => ({ value: 1 }) } });
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
    reconciler.register('settle', { lease: { onTakeover: (): Recovery => ({ value: 1 }) } });
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
      lease: { durationMs: leaseMs },
      reconcile: { ...OFTEN, intervalMs: 86_400_000 },
    };
    const [slow, other] = [await started(options), await started(options)];
    slow.reconciler.register('settle', {
      lease: {
        durationMs: 60_000,
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
    const reconcile = { ...OFTEN, intervalMs: 86_400_000 };
    const app = await reconcilingApp({ store, reconcile, ...options }, { providers }, clock);
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
    const { nest, gate, round, states } = await inTheMiddle({ limits: { shutdownTimeoutMs: 50 } });
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
    await clock.advance(3 * OFTEN.intervalMs);
    expect(store.asked).toBe(asked);
    expect(await reconciler.reconcile()).toMatchObject({ coverage: 'already_running' });
  });
});

describe('The option "reconcile"', () => {
  const rejection = (options: object) => started({ store: memoryStore(), ...options });

  it.each([
    ['yes', '"reconcile"'],
    [[], '"reconcile"'],
    [{ interval: 1 }, '"reconcile.interval" is not an option'],
    [{ intervalMs: 99 }, '"reconcile.intervalMs" must be an integer from 100 to 86400000'],
    [{ intervalMs: 86_400_001 }, '"reconcile.intervalMs"'],
    [{ batchSize: 0 }, '"reconcile.batchSize" must be an integer from 1 to 10000'],
    [{ batchSize: 10_001 }, '"reconcile.batchSize"'],
    [{ afterMs: -1 }, '"reconcile.afterMs" must be an integer from 0 to 86400000'],
    [{ afterMs: 1.5 }, '"reconcile.afterMs"'],
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
    const rows = [...page.matchAll(/^\| `(\w+Ms|batchSize)` +\| `(\d+)`/gm)];
    const defaults = rows.map(([, name = '', value]) => [name, Number(value)]);
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
