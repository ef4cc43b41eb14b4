import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  IdempotencyEvents,
  IdempotencyHealth,
  IdempotencyMeter,
  IdempotencyModule,
  IdempotencyService,
  IdempotencyStore,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { DelegatingStore, type StoreObserver, type StoreWarning } from 'nestjs-idempotency/store';
import { IdempotencyTestingModule } from 'nestjs-idempotency/testing';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { FaultyStore, heldRequest, unavailable } from '../../support/stores/faulty-store.js';
import { PromptStore } from '../../support/stores/prompt-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';

let app: TestingModule | undefined;

afterEach(async () => {
  jest.useRealTimers();
  await app?.close();
  app = undefined;
});

async function start(options: Partial<IdempotencyModuleOptions> = {}) {
  const store = new FaultyStore(options.store ?? memoryStore());
  app = await Test.createTestingModule({
    imports: [IdempotencyModule.forRoot({ ...options, store })],
  })
    .setLogger(new LoggedLines())
    .compile();
  await app.init();
  const service = app.get(IdempotencyService, { strict: false });
  const health = app.get(IdempotencyHealth, { strict: false });
  const meter = app.get(IdempotencyMeter, { strict: false });
  const run = (key: string, work: () => unknown) =>
    service.run({ operation: 'pay', key, scope: 'alice' }, work);
  return { app, store, health, meter, run };
}

describe('IdempotencyHealth in an application', () => {
  it('counts attempts that run and duplicates that wait', async () => {
    const { health, run } = await start({ duplicates: { mode: 'wait', timeoutMs: 30_000 } });
    const gate = new Gate();
    gate.close();
    const work = () => gate.pass();
    const running = ['one', 'two', 'one'].map((key) => run(key, work));
    await until(async () => {
      const { running, waiting } = await health.check({ probe: 'observe' });
      return running === 2 && waiting === 1;
    });
    gate.open();
    await Promise.all(running);
    expect(await health.check()).toMatchObject({ status: 'up', running: 0, waiting: 0 });
  });

  it('has the codes of the warnings, of the start and later ones', async () => {
    class Warning extends DelegatingStore {
      observer: StoreObserver | undefined;
      override async open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
        this.observer = observer;
        await super.open(observer);
        return [{ code: 'evicts', message: 'Records may vanish.' }];
      }
    }
    const store = new Warning(memoryStore());
    const { health } = await start({ store });
    store.observer!.warned({ code: 'lost', message: 'The connection was lost.' });
    expect(await health.check()).toEqual({
      status: 'up',
      store: 'memory',
      latencyMs: expect.any(Number),
      running: 0,
      waiting: 0,
      warnings: ['evicts', 'lost'],
    });
  });

  it('is down while the breaker is open, and sends nothing through it', async () => {
    jest.useFakeTimers();
    const { store, health, meter, run } = await start({
      store: new PromptStore(),
      breaker: { errorThresholdPercentage: 1, volumeThreshold: 1 },
    });
    expect(await health.check()).toMatchObject({ status: 'up', breaker: 'closed' });
    store.always(unavailable, 'begin', 'inspect');
    await expect(run('first', () => 1)).rejects.toThrow();
    await jest.advanceTimersByTimeAsync(0);
    const sent = store.sent.length;
    expect(meter.read().store.breaker).toBe('open');
    for (const probe of ['read', 'write', 'observe'] as const) {
      expect(await health.check({ probe, maxAgeMs: 0 })).toMatchObject({
        status: 'down',
        breaker: 'open',
        errorType: 'idempotency_store_unavailable',
      });
    }
    expect(store.sent).toHaveLength(sent);
    const probe = new Gate();
    probe.close();
    store.next('inspect', heldRequest(probe));
    await jest.advanceTimersByTimeAsync(1_000);
    expect(await health.check({ maxAgeMs: 0 })).toMatchObject({
      ...{ status: 'down', breaker: 'half_open', errorType: 'idempotency_store_unavailable' },
    });
    expect(meter.read().store.breaker).toBe('half_open');
    store.heal();
    probe.open();
    await jest.advanceTimersByTimeAsync(0);
    expect(await health.check({ maxAgeMs: 0 })).toMatchObject({ status: 'up', breaker: 'closed' });
    expect(meter.read().store.breaker).toBe('closed');
  });

  it('is down from the beginning of the shutdown, while an operation still runs', async () => {
    const { app, health, run } = await start();
    const gate = new Gate();
    gate.close();
    const running = run('one', () => gate.pass());
    await until(async () => (await health.check()).running === 1);
    const closed = app.close();
    await until(async () => (await health.check()).status === 'down');
    expect(await health.check()).toMatchObject({
      errorType: 'idempotency_shutting_down',
      running: 1,
    });
    gate.open();
    await Promise.all([running, closed]);
  });

  it('observes operations, also before the first check, and without making their events', async () => {
    const { app, store, health, run } = await start();
    store.always(unavailable, 'begin');
    await expect(run('one', () => 1)).rejects.toThrow();
    expect(await health.check({ probe: 'observe' })).toMatchObject({ status: 'down' });
    store.heal();
    await run('one', () => 1);
    expect(await health.check({ probe: 'observe' })).toMatchObject({ status: 'up' });
    expect(store.sentOf('inspect')).toEqual([]);
    expect(app.get(IdempotencyEvents, { strict: false }).wants('completed')).toBe(false);
  });

  it('checks the store in use, which a test has replaced', async () => {
    const given = new FaultyStore(memoryStore());
    const other = new FaultyStore(memoryStore());
    app = await Test.createTestingModule({ imports: [IdempotencyModule.forRoot({ store: given })] })
      .overrideProvider(IdempotencyStore)
      .useValue(other)
      .compile();
    await app.init();
    await app.get(IdempotencyHealth, { strict: false }).check();
    expect([given.sent.length, other.sent.length]).toEqual([0, 1]);
  });

  it.each([
    ['passThrough', IdempotencyTestingModule.passThrough()],
    ['inMemory', IdempotencyTestingModule.inMemory()],
  ])('is up in a test with %s()', async (_, module) => {
    app = await Test.createTestingModule({ imports: [module] }).compile();
    await app.init();
    const health = app.get(IdempotencyHealth, { strict: false });
    expect(await health.check({ probe: 'write' })).toMatchObject({ status: 'up', warnings: [] });
  });
});
