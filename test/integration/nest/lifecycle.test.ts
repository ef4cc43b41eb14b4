import { randomUUID } from 'node:crypto';
import { Module } from '@nestjs/common';
import { ExternalContextCreator, NestFactory } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyHealth,
  IdempotencyModule,
  type IdempotencyModuleOptions,
  IdempotencyOptionsError,
  IdempotencyService,
  IdempotencyStore,
  StoreConfigurationError,
  StoreReplyMismatchedError,
} from 'nestjs-idempotency';
import {
  DelegatingStore,
  type RecordKey,
  type StoreObserver,
  type StoreWarning,
} from 'nestjs-idempotency/store';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { IdempotencyTestingModule } from 'nestjs-idempotency/testing';
import { Redis } from 'ioredis';
import { LogReporter } from '../../support/internals/nest.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { namedFor } from '../../support/stores/named-for.js';
import { PromptStore } from '../../support/stores/prompt-store.js';
import { inStandingTime } from '../../support/clocks/driven-time.js';
import { Gate } from '../../support/waiting/gate.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';

@Module({})
class AppModule {}

let app: TestingModule | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
  jest.useRealTimers();
});

async function start(options: IdempotencyModuleOptions) {
  const log = new LoggedLines();
  const idempotency = IdempotencyModule.forRoot({ ...namedFor(options.store), ...options });
  app = await Test.createTestingModule({ imports: [idempotency, AppModule] })
    .setLogger(log)
    .compile();
  await app.init();
  const service = app.get(IdempotencyService, { strict: false });
  const events = app.get(IdempotencyEvents, { strict: false });
  return { app, service, events, log };
}

const call = { operation: 'pay', key: 'the-secret-key', scope: 'the-secret-user' };

describe('the start', () => {
  it('says why there is no fast path, where another library has replaced its method', async () => {
    const other = await NestFactory.createApplicationContext(AppModule, { logger: false });
    const prototype = Object.getPrototypeOf(
      Reflect.get(other.get(ExternalContextCreator), 'interceptorsConsumer'),
    );
    await other.close();
    const { intercept } = prototype;
    prototype.intercept = function (...args: unknown[]) {
      return Reflect.apply(intercept, this, args);
    };
    try {
      const log = new LoggedLines();
      const nest = await NestFactory.create(
        { module: AppModule, imports: [IdempotencyModule.forRoot({ store: memoryStore() })] },
        { logger: log, abortOnError: false },
      );
      await nest.init();
      await nest.close();
      expect(log.own).toContain(
        'log: The fast path is off: InterceptorsConsumer.intercept is not the method that Nest declares, another library may have replaced it.',
      );
    } finally {
      prototype.intercept = intercept;
    }
  });

  it('logs each warning of the store with its code', async () => {
    class Warning extends MemoryIdempotencyStore {
      override open(): Promise<readonly StoreWarning[]> {
        return Promise.resolve([
          { code: 'evicts', message: 'Records may vanish.' },
          { code: 'old', message: 'The server is old.' },
        ]);
      }
    }
    const { log } = await start({ store: new Warning() });
    expect(log.own).toEqual([
      'warn: Records may vanish. [evicts]',
      'warn: The server is old. [old]',
    ]);
  });

  it('logs nothing when there are no warnings', async () => {
    const { log } = await start({ store: memoryStore() });
    expect(log.own).toEqual([]);
  });
});

describe('one full step at the start', () => {
  /** What the start cannot take for the memory store. */
  class Custom extends MemoryIdempotencyStore {
    closings = 0;

    override get system(): string {
      return 'custom';
    }

    override close(observer?: StoreObserver): Promise<void> {
      this.closings += 1;
      return super.close(observer);
    }
  }

  const kinds = ['begin', 'release', 'complete'] as const;
  type Kind = (typeof kinds)[number];

  function failing(kind: Kind, fail: () => Promise<never>): Custom {
    return Object.assign(new Custom(), { [kind]: fail });
  }

  it('says nothing of a custom store that executes it', async () => {
    const store = new Custom();
    const { log } = await start({ store });
    expect(log.own).toEqual([]);
    expect(store.size).toBe(1);
  });

  it('does not use the wrappers of a store, which may count, nor room in the memory store', async () => {
    const memory = memoryStore();
    await start({ store: memory });
    expect(memory.size).toBe(0);
    await app?.close();
    const custom = new Custom();
    const store = new FaultyStore(new FaultyStore(custom));
    await start({ store, breaker: true });
    expect(store.sent).toEqual([]);
    expect(custom.size).toBe(1);
  });

  it.each(kinds)('stops the start if %s is misconfigured, and closes the store', async (kind) => {
    const error = new StoreConfigurationError('Grant the rights.');
    const store = failing(kind, () => Promise.reject(error));
    await expect(start({ store })).rejects.toBe(error);
    expect(store.closings).toBe(1);
    app = undefined;
  });

  it.each(kinds)('warns if %s fails for another reason', async (kind) => {
    const store = failing(kind, () => Promise.reject(new TypeError('planned')));
    const { log } = await start({ store });
    expect(log.own).toEqual([
      'warn: The store did not execute begin, complete, replay and release at the start. While it does not, idempotent operations are rejected. planned [store_step_failed]',
    ]);
  });

  it.each(kinds)('warns if no reply to %s comes in time', async (kind) => {
    await inStandingTime(async ({ pass }) => {
      const sent = Gate.closed();
      const store = failing(kind, () => {
        sent.open();
        return new Promise(() => undefined);
      });
      const starting = start({ store });
      await sent.pass();
      await pass(2_250);
      const { log } = await starting;
      expect(log.own).toHaveLength(1);
      expect(log.own[0]).toContain('The store does not reply. [store_step_failed]');
    });
  });

  it('warns of a store that confirms what it does not keep', async () => {
    class Forgetting extends Custom {
      override async complete(...args: Parameters<Custom['complete']>) {
        const reply = await super.complete(...args);
        this.clear();
        return reply;
      }
    }
    const { log } = await start({ store: new Forgetting() });
    expect(log.own[0]).toContain('The reply to begin was acquired: the server does not keep');
  });

  it('is not taken where the store has warned of an outage', async () => {
    const down = failing('begin', () => Promise.reject(new Error('planned')));
    const warning = { code: 'down', message: 'It is down.', isOutage: true };
    down.open = () => Promise.resolve([warning]);
    const { log } = await start({ store: down });
    expect(log.own).toEqual(['warn: It is down. [down]']);
  });
});

describe('a store that received the reply of another command', () => {
  it('emits an event and logs a line, also behind a circuit breaker', async () => {
    const error = new StoreReplyMismatchedError('The store');
    class OutOfStep extends MemoryIdempotencyStore {
      observer: StoreObserver | undefined;
      override open(observer?: StoreObserver): Promise<readonly StoreWarning[]> {
        this.observer = observer;
        return super.open();
      }
    }
    const store = new OutOfStep();
    const { events, log } = await start({ store, breaker: true });
    const reported: IdempotencyEvent[] = [];
    events.subscribe((event) => reported.push(event));
    store.observer!.replyMismatched(error);
    store.observer!.replyMismatched(error);
    expect(reported).toEqual(Array(2).fill({ type: 'reply_mismatched', error }));
    expect(log.own).toEqual([`warn: reply_mismatched: ${error.message}`]);
  });
});

describe('the shutdown', () => {
  it('drains first, then closes the store', async () => {
    const store = new FaultyStore(new PromptStore());
    const { app, service } = await start({ store });
    const gate = Gate.closed();
    const running = service.run(call, async () => {
      await gate.pass();
      return { closed: store.closed };
    });
    const closed = app.close();
    let rejected: unknown;
    while (rejected === undefined) {
      const another = { ...call, key: randomUUID() };
      rejected = await service.run(another, () => undefined).catch((error: unknown) => error);
    }
    expect(rejected).toMatchObject({ code: 'idempotency_shutting_down', retryable: true });
    expect(store.closed).toBe(false);
    gate.open();
    expect(await running).toEqual({ closed: false });
    await closed;
    expect(store.closed).toBe(true);
    expect(store.sent.at(-1)).toMatchObject({ step: 'complete', token: store.sent[0]!.token });
  });

  it('does not wait for ever, and logs the number of running operations', async () => {
    const store = new FaultyStore(new PromptStore());
    const { app, service, log } = await start({ store, limits: { shutdownTimeout: 50 } });
    const gate = Gate.closed();
    const running = service.run(call, () => gate.pass());
    await app.close();
    expect(store.closed).toBe(true);
    expect(log.own).toEqual([
      'warn: 1 operations were still running after "limits.shutdownTimeout". Their keys stay blocked until their leases expire.',
    ]);
    gate.open();
    await running;
  });
});

describe('the log', () => {
  const OPTIONS = {
    storeErrors: { saveTimeout: 20, commandTimeout: 20 },
    limits: { shutdownTimeout: 0 },
  };

  async function storeIsDown(options: Partial<IdempotencyModuleOptions> = {}) {
    const store = new FaultyStore(memoryStore());
    const started = await start({ store, ...OPTIONS, ...options });
    store.always(unavailable, 'begin');
    return started;
  }

  const rejected = (service: IdempotencyService) =>
    expect(service.run(call, () => 1)).rejects.toMatchObject({
      code: 'idempotency_store_unavailable',
    });

  it('has a critical event with its cause, but no key and no caller', async () => {
    const { service, log } = await storeIsDown();
    await rejected(service);
    expect(log.own).toEqual(['warn: store_unavailable in pay: planned: unavailable']);
    expect(JSON.stringify(log.lines)).not.toContain('the-secret');
  });

  it('has every critical event', async () => {
    const { service, log } = await storeIsDown({ storeErrors: { whenUnavailable: 'execute' } });
    expect(await service.run(call, () => 1)).toBe(1);
    expect(log.own).toEqual([
      'warn: store_unavailable in pay: planned: unavailable',
      expect.stringMatching(/^error: unprotected in pay, record [\w-]{43}$/),
    ]);
  });

  it('has no line for ordinary events', async () => {
    const { service, log } = await start({ store: memoryStore() });
    await service.run(call, () => 1);
    await service.run(call, () => 1);
    await expect(service.run({ ...call, payload: 'another' }, () => 1)).rejects.toThrow();
    expect(log.own).toEqual([]);
  });

  it('has no critical events when a subscriber replaces it', async () => {
    const { service, events, log } = await storeIsDown();
    const reported: string[] = [];
    const leave = events.subscribe(({ type }) => void reported.push(type), { replacesLog: true });
    await rejected(service);
    expect(reported).toEqual(['store_unavailable', 'rejected']);
    expect(log.own).toEqual([]);
    leave();
    await rejected(service);
    expect(log.own).toHaveLength(1);
  });

  it('has critical events beside a subscriber that does not replace it', async () => {
    const { service, events, log } = await storeIsDown();
    events.subscribe(() => undefined);
    await rejected(service);
    expect(log.own).toHaveLength(1);
  });

  it('has the failure of a subscriber, which does not affect the operation', async () => {
    const { service, events, log } = await start({ store: memoryStore() });
    events.subscribe(() => {
      throw new Error('a subscriber’s bug');
    });
    expect(await service.run(call, () => 1)).toBe(1);
    expect(log.own).toEqual([
      'error: A subscriber to events failed on "acquired".',
      'error: A subscriber to events failed on "completed".',
      'error: A subscriber to events failed on "ended".',
    ]);
    expect(JSON.stringify(log.lines)).toContain('a subscriber’s bug');
  });
});

it.each<[string, IdempotencyEvent]>([
  [
    'store_unavailable in pay: down',
    {
      type: 'store_unavailable',
      operation: 'pay',
      recordKey: 'digest' as RecordKey,
      source: 'request',
      error: new Error('down'),
    },
  ],
  ['breaker_opened: still down', { type: 'breaker_opened', error: new Error('still down') }],
])(
  'the log has one line in ten seconds, with a count of the suppressed ones: %s',
  (line, event) => {
    jest.useFakeTimers();
    const log = new LoggedLines();
    const reporter = new LogReporter(log);
    const report = () => reporter.report(event);
    for (let request = 0; request < 100; request += 1) report();
    jest.advanceTimersByTime(9_999);
    report();
    jest.advanceTimersByTime(1);
    report();
    report();
    jest.advanceTimersByTime(10_000);
    report();
    expect(log.lines.map(({ message }) => message)).toEqual([
      line,
      `${line} (and 100 more since the last line)`,
      `${line} (and 1 more since the last line)`,
    ]);
  },
);

describe('a Redis connection', () => {
  const redis = useRedis();

  it('of the application stays open when the application ends', async () => {
    const client = new Redis(redis.url);
    const { app, service } = await start({ store: redisStore({ client }) });
    await service.run(call, () => 1);
    await app.close();
    expect(await client.ping()).toBe('PONG');
    client.disconnect();
  });

  it('that the store opened is closed with the application', async () => {
    const observer = new Redis(redis.url);
    const { app, service } = await start({ store: redisStore({ url: redis.url }) });
    await service.run({ ...call, key: 'another' }, () => 1);
    expect(await observer.client('LIST')).toContain('name=nestjs-idempotency');
    await app.close();
    expect(await observer.client('LIST')).not.toContain('name=nestjs-idempotency');
    observer.disconnect();
  });
});

async function startBehindBreaker(
  options: Omit<IdempotencyModuleOptions, 'store'>,
  real: IdempotencyStore = memoryStore(),
) {
  const store = new FaultyStore(real);
  const { app, service, events, log } = await start({ store, ...options });
  const reported: string[] = [];
  events.subscribe(({ type }) => void reported.push(type));
  const call = (key: string) =>
    service.run({ operation: 'pay', key, scope: 'alice' }, () => 'paid');
  return { app, store, log, reported, call };
}

describe('the module option "breaker"', () => {
  it('is off by default: the given store is used as it is', async () => {
    const { app, store } = await startBehindBreaker({});
    expect(app.get(IdempotencyStore, { strict: false })).toBe(store);
  });

  it('puts a circuit around the store of every operation', async () => {
    jest.useFakeTimers();
    const { store, reported, call } = await startBehindBreaker({
      breaker: { volumeThreshold: 2 },
      storeErrors: { commandTimeout: 321 },
    });
    store.always(unavailable, 'begin', 'inspect');
    for (const key of ['first', 'second']) await expect(call(key)).rejects.toThrow();
    await expect(call('third')).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
    expect(store.sentOf('begin')).toHaveLength(2);
    expect(reported).toEqual([
      'store_unavailable',
      'rejected',
      'breaker_opened',
      'store_unavailable',
      'rejected',
      'store_unavailable',
      'rejected',
    ]);
    store.heal();
    await jest.advanceTimersByTimeAsync(1_000);
    expect(reported.slice(-2)).toEqual(['breaker_half_open', 'breaker_closed']);
    expect(store.sentOf('inspect')).toMatchObject([{ command: { timeoutMs: 321 } }]);
    expect(await call('third')).toBe('paid');
  });

  it.each([
    [{ breaker: { window: 1 } }, '"breaker.window"'],
    [{ breaker: 'yes' }, '"breaker"'],
    [{ breaker: [] }, '"breaker"'],
  ])('stops the start when it is invalid: %j', async (options, name) => {
    await expect(startBehindBreaker(options as never)).rejects.toThrow(IdempotencyOptionsError);
    await expect(startBehindBreaker(options as never)).rejects.toThrow(name);
  });
});

describe('around a real Redis', () => {
  const commandTimeoutMs = 5_000;
  const breaker = { errorThresholdPercentage: 1, volumeThreshold: 3 };
  const keys = Array.from({ length: 2 * breaker.volumeThreshold }, (_, i) => `key ${String(i)}`);
  const server = useServer(startRedis);
  const client = useRedisClient(server);

  it('the circuit stays closed when Redis is out of memory: Redis itself rejects the begins', async () => {
    const store = redisStore({ url: server.url });
    const { reported, call } = await startBehindBreaker(
      { breaker, storeErrors: { commandTimeout: commandTimeoutMs } },
      store,
    );
    await client.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction');
    try {
      for (const key of keys) {
        await expect(call(key)).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
      }
      expect(reported).not.toContain('breaker_opened');
    } finally {
      await client.config('SET', 'maxmemory', '0');
    }
    // At once: the circuit is closed.
    for (const key of keys) expect(await call(key)).toBe('paid');
  });

  it('the circuit stays closed with too few replicas: the begins are written, then rejected', async () => {
    const waitReplicas = { count: 1, timeout: 50 };
    const store = redisStore({ url: server.url, waitReplicas });
    const {
      store: sent,
      reported,
      call,
    } = await startBehindBreaker(
      { breaker, storeErrors: { commandTimeout: commandTimeoutMs } },
      store,
    );
    for (const key of keys) {
      await expect(call(`replicated ${key}`)).rejects.toMatchObject({
        code: 'idempotency_store_unavailable',
      });
    }
    expect(sent.sentOf('begin')).toHaveLength(keys.length);
    expect(reported).not.toContain('breaker_opened');
  });

  it('the circuit opens when the connection is closed: Redis does not reply', async () => {
    const given = new Redis(server.url);
    const { reported, call } = await startBehindBreaker(
      { breaker, storeErrors: { commandTimeout: commandTimeoutMs } },
      redisStore({ client: given }),
    );
    await given.quit();
    for (const key of keys) await expect(call(key)).rejects.toThrow();
    expect(reported).toContain('breaker_opened');
  });
});

describe('around a PostgreSQL that is not there', () => {
  it('the circuit opens again after each probe', async () => {
    const store = postgresStore({ url: `postgres://127.0.0.1:${String(await freePort())}/none` });
    const { reported, call } = await startBehindBreaker(
      { breaker: { volumeThreshold: 1, probeInterval: 10 } },
      store,
    );
    await expect(call('first')).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
    const probes = () => reported.filter((type) => type === 'breaker_half_open').length;
    await until(() => probes() > 1);
    expect(reported).not.toContain('breaker_closed');
  });
});

it('an open circuit in the log is one line with the last error', async () => {
  jest.useFakeTimers();
  const { store, log, call } = await startBehindBreaker({ breaker: { volumeThreshold: 1 } });
  store.always(unavailable, 'begin', 'inspect');
  await expect(call('first')).rejects.toThrow();
  expect(log.own).toContain('warn: breaker_opened: planned: unavailable');
});

async function startWatched(options: Partial<IdempotencyModuleOptions> = {}) {
  const store = new FaultyStore(options.store ?? memoryStore());
  const { app, service } = await start({ ...options, store });
  const health = app.get(IdempotencyHealth, { strict: false });
  const run = (key: string, work: () => unknown) =>
    service.run({ operation: 'pay', key, scope: 'alice' }, work);
  return { app, store, health, run };
}

describe('IdempotencyHealth in an application', () => {
  it('counts attempts that run and duplicates that wait', async () => {
    const { health, run } = await startWatched({ duplicates: { mode: 'wait', timeout: 30_000 } });
    const gate = Gate.closed();
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
    const { health } = await startWatched({ store });
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

  it('observes operations, also before the first check, and without making their events', async () => {
    const { app, store, health, run } = await startWatched();
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
