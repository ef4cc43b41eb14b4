import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  IdempotencyMeter,
  IdempotencyOptionsError,
  StoreConfigurationError,
  StoreReplyMismatchedError,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import type { BreakerState } from 'nestjs-idempotency/store';
import {
  FaultyStore,
  heldReply,
  misconfigured,
  unavailable,
  type Fault,
} from '../../support/stores/faulty-store.js';
import { healthOf } from '../../support/stores/health-of.js';
import { PromptStore } from '../../support/stores/prompt-store.js';
import { Gate } from '../../support/waiting/gate.js';

/** What a report has besides when nothing is wrong. */
const CALM = { store: 'memory', running: 0, waiting: 0, warnings: [] };
const DOWN = { ...CALM, status: 'down', errorType: 'idempotency_store_unavailable' };

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

class StoreWithBreaker extends FaultyStore {
  state: BreakerState | undefined;

  override get breaker() {
    return this.state;
  }
}

function underTest(changes: Parameters<typeof healthOf>[1] = {}) {
  const records = new PromptStore();
  const store = new StoreWithBreaker(records);
  const meter = new IdempotencyMeter();
  const health = healthOf(store, changes, meter);
  const reply = (command: Command) => meter.commandReplied(command, performance.now());
  const fail = (command: Command, error: unknown = new StoreUnavailableError()) =>
    meter.commandFailed(command, performance.now(), error);
  return { records, store, health, reply, fail };
}

type Command = Parameters<IdempotencyMeter['commandReplied']>[0];

/** Fails with what a store must not throw. */
const throwing =
  (error: unknown): Fault =>
  async () => {
    throw error;
  };

/** Whether a promise has settled, without passing time. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  void promise.finally(() => (settled = true));
  await jest.advanceTimersByTimeAsync(0);
  return settled;
}

describe('a check', () => {
  it('reads a record that no request has, and leaves nothing', async () => {
    const { records, store, health } = underTest();
    expect(await health.check()).toEqual({ ...CALM, status: 'up', latencyMs: 0 });
    expect(store.sent).toMatchObject([{ step: 'inspect', command: { timeoutMs: 500 } }]);
    expect(records.size).toBe(0);
  });

  it('with "write" acquires a record and releases it, which then expires at once', async () => {
    const { records, store, health } = underTest();
    expect(await health.check({ probe: 'write' })).toEqual({
      ...CALM,
      status: 'up',
      latencyMs: 0,
    });
    const [begin, release] = store.sent;
    expect(store.sent.map(({ step }) => step)).toEqual(['begin', 'release']);
    expect(begin!.command).toMatchObject({
      // A request's is a digest of 43 characters.
      recordKey: expect.stringMatching(/^[\w-]{48}$/),
      timeoutMs: 500,
    });
    expect(release!.token).toBe(begin!.token);
    await jest.advanceTimersByTimeAsync(1);
    await health.check();
    expect(records.size).toBe(0);
  });

  it('with "write" leaves a record for a second at most, if its release is lost', async () => {
    const { records, store, health } = underTest();
    store.next('release', unavailable);
    expect(await health.check({ probe: 'write' })).toEqual({ ...DOWN, latencyMs: 0 });
    await jest.advanceTimersByTimeAsync(1_000);
    await health.check();
    expect(records.size).toBe(0);
  });

  it('with "write" gives both commands together the time that it has', async () => {
    const { store, health } = underTest();
    store.next('begin', async (execute) => {
      await new Promise((resolve) => setTimeout(resolve, 120));
      return execute();
    });
    const report = health.check({ probe: 'write' });
    await jest.advanceTimersByTimeAsync(120);
    expect(await report).toMatchObject({ status: 'up', latencyMs: 120 });
    expect(store.sentOf('release')).toMatchObject([{ command: { timeoutMs: 380 } }]);
  });

  it('with "write" is down if the record is not there to be released', async () => {
    const { store, health } = underTest();
    store.next('begin', () => Promise.resolve({ kind: 'acquired' } as never));
    expect(await health.check({ probe: 'write' })).toEqual({ ...DOWN, latencyMs: 0 });
  });

  it('uses another record each time', async () => {
    const { store, health } = underTest();
    const keys = new Set<unknown>();
    for (let time = 0; time < 3; time += 1) {
      await health.check({ probe: 'write', maxAge: 0 });
      const { command } = store.sentOf('begin').at(-1)!;
      keys.add('recordKey' in command && command.recordKey);
    }
    expect(keys.size).toBe(3);
  });

  it.each([
    ['misconfigured', misconfigured, 'idempotency_store_misconfigured'],
    [
      'mismatched',
      throwing(new StoreReplyMismatchedError('x')),
      'idempotency_store_reply_mismatched',
    ],
    [
      'foreign with a code',
      throwing(Object.assign(new Error('x'), { code: 'idempotency_a_secret' })),
      'idempotency_store_unavailable',
    ],
  ])('is down with a code of the library: %s', async (_, fault, errorType) => {
    const { store, health } = underTest();
    store.always(fault, 'inspect', 'begin');
    const expected = { ...CALM, status: 'down', latencyMs: 0, errorType };
    expect(await health.check()).toEqual(expected);
    expect(await health.check({ probe: 'write' })).toEqual(expected);
    expect(store.sentOf('release')).toEqual([]);
  });

  it('shows what is in progress, and the warnings of the store', async () => {
    const { health } = underTest({ running: () => [1, 2, 3], waiting: () => [1, 2] });
    for (const code of ['redis_may_evict', 'redis_not_durable', 'redis_may_evict']) {
      health.warned(code);
    }
    expect(await health.check()).toMatchObject({
      ...{ running: 3, waiting: 2 },
      status: 'up',
      warnings: ['redis_may_evict', 'redis_not_durable'],
    });
  });

  it.each([
    [{ probe: 'ping' }, '"probe" must be "read", "write" or "observe"'],
    [{ timeout: 0 }, `"timeout" must be a duration from '1ms' to '1m'`],
    [{ maxAge: -1 }, `"maxAge" must be a duration from '0ms' to '1h'`],
    [{ timeoutMs: 5 }, 'Did you mean "timeout"?'],
  ])('rejects %j', async (options, message) => {
    const rejected = underTest().health.check(options as never);
    await expect(rejected).rejects.toThrow(IdempotencyOptionsError);
    await expect(rejected).rejects.toThrow(message);
  });
});

describe('concurrent and later checks', () => {
  it('share one probe, and its result until it is "maxAge" old', async () => {
    const { store, health } = underTest();
    const gate = Gate.closed();
    store.next('inspect', heldReply(gate));
    const reports = Array.from({ length: 5 }, () => health.check());
    await jest.advanceTimersByTimeAsync(100);
    gate.open();
    for (const report of await Promise.all(reports)) {
      expect(report).toMatchObject({ status: 'up', latencyMs: 100 });
    }
    await jest.advanceTimersByTimeAsync(999);
    expect(await health.check()).toMatchObject({ latencyMs: 100 });
    expect(store.sent).toHaveLength(1);
    await jest.advanceTimersByTimeAsync(1);
    expect(await health.check()).toMatchObject({ latencyMs: 0 });
    expect(store.sent).toHaveLength(2);
  });

  it('share a failure, too, and see the recovery when it is too old', async () => {
    const { store, health } = underTest();
    store.next('inspect', unavailable);
    expect(await health.check()).toMatchObject({ status: 'down' });
    expect(await health.check()).toMatchObject({ status: 'down' });
    expect(await health.check({ maxAge: 0 })).toMatchObject({ status: 'up' });
    expect(store.sent).toHaveLength(2);
  });

  it('of different kinds do not share', async () => {
    const { store, health } = underTest();
    store.always(unavailable, 'begin');
    expect(await health.check()).toMatchObject({ status: 'up' });
    expect(await health.check({ probe: 'write' })).toMatchObject({ status: 'down' });
    expect(await health.check()).toMatchObject({ status: 'up' });
  });

  it('wait no longer than their own "timeout" for a store that never replies, and send it one command', async () => {
    const { store, health } = underTest();
    const gate = Gate.closed();
    store.always(heldReply(gate), 'inspect');
    const long = health.check({ timeout: '500ms' });
    const short = health.check({ timeout: 200 });
    await jest.advanceTimersByTimeAsync(199);
    expect(await isSettled(short)).toBe(false);
    await jest.advanceTimersByTimeAsync(1);
    expect(await short).toEqual(DOWN);
    await jest.advanceTimersByTimeAsync(299);
    expect(await isSettled(long)).toBe(false);
    await jest.advanceTimersByTimeAsync(1);
    expect(await long).toEqual(DOWN);
    const next = health.check();
    await jest.advanceTimersByTimeAsync(500);
    expect(await next).toEqual(DOWN);
    expect(store.sent).toHaveLength(1);
    gate.open();
    await jest.advanceTimersByTimeAsync(0);
    expect(await health.check({ maxAge: 0 })).toMatchObject({ status: 'up' });
    expect(store.sent).toHaveLength(2);
  });
});

describe.each(['read', 'write', 'observe'] as const)('a check with "%s"', (probe) => {
  it('is down without a command while the breaker is not closed', async () => {
    const { store, health } = underTest();
    store.state = 'closed';
    expect(await health.check({ probe })).toMatchObject({ status: 'up', breaker: 'closed' });
    const before = store.sent.length;
    for (const breaker of ['open', 'half_open'] as const) {
      store.state = breaker;
      expect(await health.check({ probe, maxAge: 0 })).toEqual({ ...DOWN, breaker });
    }
    expect(store.sent).toHaveLength(before);
    store.state = 'closed';
    expect(await health.check({ probe, maxAge: 0 })).toMatchObject({ status: 'up' });
  });

  it('is down without a command during the shutdown', async () => {
    const { store, health } = underTest();
    store.state = 'open';
    health.onModuleDestroy();
    expect(await health.check({ probe })).toEqual({
      ...DOWN,
      breaker: 'open',
      errorType: 'idempotency_shutting_down',
    });
    expect(store.sent).toEqual([]);
  });
});

it('a check during which the shutdown begins is down', async () => {
  const { store, health } = underTest();
  const gate = Gate.closed();
  store.next('inspect', heldReply(gate));
  const report = health.check();
  health.onModuleDestroy();
  gate.open();
  expect(await report).toMatchObject({
    status: 'down',
    errorType: 'idempotency_shutting_down',
  });
});

describe('a check with "observe"', () => {
  const observe = { probe: 'observe' } as const;

  it('sends nothing, and is up while nothing is known', async () => {
    const { store, health } = underTest();
    expect(await health.check(observe)).toEqual({ ...CALM, status: 'up' });
    expect(store.sent).toEqual([]);
  });

  it('is down while more than half of the commands failed, also before its first check', async () => {
    const { health, reply, fail } = underTest();
    reply('begin');
    fail('begin');
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
    fail('complete');
    expect(await health.check(observe)).toEqual(DOWN);
    reply('complete');
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
  });

  it.each(['begin', 'extend', 'complete', 'release'] as const)('counts %s', async (command) => {
    const { health, reply, fail } = underTest();
    fail(command);
    expect(await health.check(observe)).toEqual(DOWN);
    reply(command);
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
  });

  it.each([
    ...(['watch', 'abandoned', 'list', 'amend'] as const),
    ...(['transaction_lock', 'transaction_complete', 'transaction_ended'] as const),
  ])(
    'does not count %s, which no request depends on or has another connection',
    async (command) => {
      const { health, reply, fail } = underTest();
      fail(command);
      expect(await health.check(observe)).toMatchObject({ status: 'up' });
      fail('begin');
      reply(command);
      expect(await health.check(observe)).toEqual(DOWN);
    },
  );

  it('forgets what is older than ten seconds', async () => {
    // At the beginning of a second.
    await jest.advanceTimersByTimeAsync(1_000 - (performance.now() % 1_000));
    const { health, reply, fail } = underTest();
    fail('begin');
    await jest.advanceTimersByTimeAsync(9_999);
    expect(await health.check(observe)).toMatchObject({ status: 'down' });
    await jest.advanceTimersByTimeAsync(1);
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
    fail('begin');
    fail('begin');
    reply('begin');
    expect(await health.check(observe)).toMatchObject({ status: 'down' });
    await jest.advanceTimersByTimeAsync(60_000);
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
  });

  it('names the last failure', async () => {
    const { health, fail } = underTest();
    fail('begin', new StoreConfigurationError());
    fail('watch', new StoreReplyMismatchedError('x'));
    expect(await health.check(observe)).toMatchObject({
      errorType: 'idempotency_store_misconfigured',
    });
  });
});
