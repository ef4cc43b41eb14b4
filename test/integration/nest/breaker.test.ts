import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  IdempotencyEvents,
  IdempotencyModule,
  IdempotencyOptionsError,
  IdempotencyService,
  IdempotencyStore,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { LogReporter } from '../../support/internals/nest.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { useRedisClient } from '../../support/redis/use-redis.js';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { until } from '../../support/waiting/until.js';

let app: TestingModule | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
  jest.useRealTimers();
});

async function start(
  options: Omit<IdempotencyModuleOptions, 'store'>,
  real: IdempotencyStore = memoryStore(),
) {
  const store = new FaultyStore(real);
  const log = new LoggedLines();
  app = await Test.createTestingModule({
    imports: [IdempotencyModule.forRoot({ store, ...options })],
  })
    .setLogger(log)
    .compile();
  await app.init();
  const service = app.get(IdempotencyService, { strict: false });
  const reported: string[] = [];
  app.get(IdempotencyEvents, { strict: false }).subscribe(({ type }) => void reported.push(type));
  const call = (key: string) =>
    service.run({ operation: 'pay', key, scope: 'alice' }, () => 'paid');
  return { app, store, log, reported, call };
}

describe('the module option "breaker"', () => {
  it('is off by default: the given store is used as it is', async () => {
    const { app, store } = await start({});
    expect(app.get(IdempotencyStore, { strict: false })).toBe(store);
  });

  it('puts a circuit around the store of every operation', async () => {
    jest.useFakeTimers();
    const { store, reported, call } = await start({
      breaker: { volumeThreshold: 2 },
      storeErrors: { commandTimeoutMs: 321 },
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
    [{ breaker: { windowMs: 1 } }, '"breaker.windowMs"'],
    [{ breaker: 'yes' }, '"breaker"'],
    [{ breaker: [] }, '"breaker"'],
  ])('stops the start when it is invalid: %j', async (options, name) => {
    await expect(start(options as never)).rejects.toThrow(IdempotencyOptionsError);
    await expect(start(options as never)).rejects.toThrow(name);
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
    const { reported, call } = await start({ breaker, storeErrors: { commandTimeoutMs } }, store);
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
    const waitReplicas = { count: 1, timeoutMs: 50 };
    const store = redisStore({ url: server.url, waitReplicas });
    const {
      store: sent,
      reported,
      call,
    } = await start({ breaker, storeErrors: { commandTimeoutMs } }, store);
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
    const { reported, call } = await start(
      { breaker, storeErrors: { commandTimeoutMs } },
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
    const { reported, call } = await start(
      { breaker: { volumeThreshold: 1, probeIntervalMs: 10 } },
      store,
    );
    await expect(call('first')).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
    const probes = () => reported.filter((type) => type === 'breaker_half_open').length;
    await until(() => probes() > 1);
    expect(reported).not.toContain('breaker_closed');
  });
});

describe('an open circuit in the log', () => {
  beforeEach(() => void jest.useFakeTimers());

  it('is one line with the last error', async () => {
    const { store, log, call } = await start({ breaker: { volumeThreshold: 1 } });
    store.always(unavailable, 'begin', 'inspect');
    await expect(call('first')).rejects.toThrow();
    expect(log.own).toContain('warn: breaker_opened: planned: unavailable');
  });

  it('is logged once in ten seconds, however many probes fail', () => {
    const log = new LoggedLines();
    const reporter = new LogReporter(log);
    const opened = () =>
      reporter.report({ type: 'breaker_opened', error: new Error('still down') });
    opened();
    jest.advanceTimersByTime(9_999);
    opened();
    jest.advanceTimersByTime(1);
    opened();
    expect(log.lines.map(({ message }) => message)).toEqual([
      'breaker_opened: still down',
      'breaker_opened: still down (and 1 more since the last line)',
    ]);
  });
});
