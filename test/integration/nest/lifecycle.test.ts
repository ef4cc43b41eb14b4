import { Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import {
  IdempotencyEvents,
  IdempotencyModule,
  IdempotencyService,
  StoreConfigurationError,
  StoreReplyMismatchedError,
  type IdempotencyEvent,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import type { RecordKey, StoreObserver, StoreWarning } from 'nestjs-idempotency/store';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { LogReporter } from '../../support/internals/nest.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { PromptStore } from '../../support/stores/prompt-store.js';
import { inStandingTime } from '../../support/clocks/standing-time.js';
import { Gate } from '../../support/waiting/gate.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';

@Module({})
class AppModule {}

let app: TestingModule | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
});

async function start(options: IdempotencyModuleOptions, log = new LoggedLines()) {
  app = await Test.createTestingModule({ imports: [IdempotencyModule.forRoot(options), AppModule] })
    .setLogger(log)
    .compile();
  await app.init();
  const service = app.get(IdempotencyService, { strict: false });
  const events = app.get(IdempotencyEvents, { strict: false });
  return { app, service, events, log };
}

const call = { operation: 'pay', key: 'the-secret-key', scope: 'the-secret-user' };

describe('the start', () => {
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
      const sent = new Gate();
      sent.close();
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
    const gate = new Gate();
    gate.close();
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
    const { app, service, log } = await start({ store, limits: { shutdownTimeoutMs: 50 } });
    const gate = new Gate();
    gate.close();
    const running = service.run(call, () => gate.pass());
    await app.close();
    expect(store.closed).toBe(true);
    expect(log.own).toEqual([
      'warn: 1 operations were still running after "limits.shutdownTimeoutMs". Their keys stay blocked until their leases expire.',
    ]);
    gate.open();
    await running;
  });
});

describe('the log', () => {
  const OPTIONS = {
    storeErrors: { saveTimeoutMs: 20, commandTimeoutMs: 20 },
    limits: { shutdownTimeoutMs: 0 },
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

describe('an outage in the log', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('is one line in ten seconds with a count of the suppressed lines', () => {
    const log = new LoggedLines();
    const reporter = new LogReporter(log);
    const outage = () =>
      reporter.report({
        type: 'store_unavailable',
        operation: 'pay',
        recordKey: 'digest' as RecordKey,
        source: 'request',
        error: new Error('down'),
      });
    for (let request = 0; request < 100; request += 1) outage();
    jest.advanceTimersByTime(9_999);
    outage();
    jest.advanceTimersByTime(1);
    outage();
    outage();
    jest.advanceTimersByTime(10_000);
    outage();
    expect(log.lines.map(({ message }) => message)).toEqual([
      'store_unavailable in pay: down',
      'store_unavailable in pay: down (and 100 more since the last line)',
      'store_unavailable in pay: down (and 1 more since the last line)',
    ]);
  });
});

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
