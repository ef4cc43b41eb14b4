import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyModule,
  IdempotencyOptionsError,
  IdempotencyService,
  IdempotencyStore,
  recordKey,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { CACHE_DEFAULTS } from '../../../lib/core/cache-options.js';
import { FaultyStore, unavailable } from '../../support/faulty-store.js';
import { startRedis } from '../../support/redis-server.js';
import { scriptCalls } from '../../support/script-calls.js';
import { useRedis, useRedisClient } from '../../support/use-redis.js';
import { LoggedLines } from './support/logged-lines.js';

let app: TestingModule | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
  jest.useRealTimers();
});

async function start(
  options: Omit<IdempotencyModuleOptions, 'store'>,
  store: IdempotencyStore = memoryStore(),
) {
  app = await Test.createTestingModule({
    imports: [IdempotencyModule.forRoot({ store, ...options })],
  })
    .setLogger(new LoggedLines())
    .compile();
  await app.init();
  const service = app.get(IdempotencyService, { strict: false });
  const events: IdempotencyEvent[] = [];
  app.get(IdempotencyEvents, { strict: false }).subscribe((event) => void events.push(event));
  let executions = 0;
  const call = (key: string, payload: unknown = 1) =>
    service.run({ operation: 'pay', key, scope: 'alice', payload }, () => {
      executions += 1;
      return { execution: executions };
    });
  return { app, events, call };
}

describe('the module option "cache"', () => {
  it('is off by default: the store in use is the one that was given', async () => {
    const store = memoryStore();
    const { app } = await start({}, store);
    expect(app.get(IdempotencyStore, { strict: false })).toBe(store);
  });

  it.each([
    [{ cache: { maxBytes: 1 } }, '"cache.maxBytes"'],
    [{ cache: { maxAge: 1 } }, '"maxAge"'],
    [{ cache: 'yes' }, '"cache"'],
  ])('stops the start when it cannot work: %j', async (options, name) => {
    await expect(start(options as never)).rejects.toThrow(IdempotencyOptionsError);
    await expect(start(options as never)).rejects.toThrow(name);
  });

  it('is the outermost: what it knows is replayed through an open circuit, too', async () => {
    const store = new FaultyStore(memoryStore());
    const breaker = { errorThresholdPercentage: 1, volumeThreshold: 1 };
    const { call, events } = await start({ cache: true, breaker }, store);
    for (let time = 0; time < 2; time += 1) await call('known');
    store.always(unavailable, 'begin', 'inspect');
    await expect(call('first failure')).rejects.toThrow();
    await expect(call('second failure')).rejects.toThrow();
    expect(events.map(({ type }) => type)).toContain('breaker_opened');
    const { length } = store.sent;
    expect(await call('known')).toEqual({ execution: 1 });
    await expect(call('unknown')).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
    expect(store.sent).toHaveLength(length);
  });
});

describe('around a real Redis', () => {
  const commandTimeoutMs = 5_000;
  const retentionMs = 30_000;
  const server = useRedis();

  const observer = useRedisClient(server);
  beforeEach(async () => {
    await observer.flushall();
    // The clocks that ages are counted by, and nothing that a client of Redis waits for.
    jest.useFakeTimers({
      now: Date.now(),
      doNotFake: [
        'hrtime',
        'nextTick',
        'queueMicrotask',
        'setImmediate',
        'clearImmediate',
        'setInterval',
        'clearInterval',
        'setTimeout',
        'clearTimeout',
      ],
    });
  });

  async function started(cache: IdempotencyModuleOptions['cache'] = true) {
    const store = redisStore({ url: server.url });
    const running = await start({ cache, commandTimeoutMs, retentionMs }, store);
    // The server learns the scripts' texts.
    await running.call('warm up');
    await running.call('warm up');
    running.events.length = 0;
    const sentDuring = async (work: () => Promise<unknown>) => {
      const before = await scriptCalls(observer);
      await work();
      return (await scriptCalls(observer)) - before;
    };
    return { ...running, sentDuring };
  }

  it('the first request takes 2 commands, the first replay 1, the others none, and none a mismatch', async () => {
    const { call, events, sentDuring } = await started();
    expect(await sentDuring(() => call('a'))).toBe(2);
    expect(await sentDuring(() => call('a'))).toBe(1);
    const replayed = async () => {
      for (let time = 0; time < 10; time += 1) expect(await call('a')).toEqual({ execution: 2 });
    };
    expect(await sentDuring(replayed)).toBe(0);
    const misused = async () => {
      await expect(call('a', 'something else')).rejects.toMatchObject({
        code: 'idempotency_key_reused',
      });
    };
    expect(await sentDuring(misused)).toBe(0);
    const subject = {
      operation: 'pay',
      recordKey: recordKey({ scope: ['alice'], operation: 'pay', key: 'a' }),
    };
    expect(events.slice(2)).toEqual([
      { type: 'replayed', ...subject, state: 'completed', fromCache: false },
      ...Array<object>(10).fill({
        type: 'replayed',
        ...subject,
        state: 'completed',
        fromCache: true,
      }),
      { type: 'rejected', ...subject, reason: 'mismatch' },
    ]);
  });

  it('after maxAgeMs the store is asked again, once', async () => {
    const { call, sentDuring } = await started({ maxAgeMs: 1_000 });
    for (let time = 0; time < 2; time += 1) await call('a');
    jest.advanceTimersByTime(900);
    expect(await sentDuring(() => call('a'))).toBe(0);
    jest.advanceTimersByTime(100);
    expect(await sentDuring(() => call('a'))).toBe(1);
    expect(await sentDuring(() => call('a'))).toBe(0);
    expect(await call('a')).toEqual({ execution: 2 });
  });

  it('after the retention the store is asked again, and the operation runs again', async () => {
    const { call } = await started();
    for (let time = 0; time < 2; time += 1) await call('a');
    await observer.flushall();
    jest.advanceTimersByTime(retentionMs - 1_000);
    expect(await call('a')).toEqual({ execution: 2 });
    jest.advanceTimersByTime(1_000);
    expect(await call('a')).toEqual({ execution: 3 });
  });

  it('a record that was deleted on purpose is answered for until maxAgeMs is over, and no longer', async () => {
    const { call, sentDuring } = await started({ maxAgeMs: 20_000 });
    for (let time = 0; time < 2; time += 1) await call('a');
    await observer.flushall();
    jest.advanceTimersByTime(19_000);
    expect(await call('a')).toEqual({ execution: 2 });
    jest.advanceTimersByTime(1_000);
    expect(await sentDuring(() => call('a'))).toBe(2);
    expect(await call('a')).toEqual({ execution: 3 });
    expect(CACHE_DEFAULTS.maxAgeMs).toBeLessThanOrEqual(60_000);
  });

  it('replays go on while the server is gone', async () => {
    // What waits for the server gives up by these clocks.
    jest.useRealTimers();
    const gone = await startRedis();
    const store = redisStore({ url: gone.url, onConnectionError: () => undefined });
    const { call } = await start({ cache: true, retentionMs }, store);
    for (let time = 0; time < 2; time += 1) await call('a');
    await gone.stop();
    expect(await call('a')).toEqual({ execution: 1 });
    await expect(call('b')).rejects.toMatchObject({ code: 'idempotency_store_unavailable' });
  });
});
