import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyOptionsError,
  StoreConfigurationError,
  StoreReplyMismatchedError,
  StoreUnavailableError,
  type IdempotencyEvent,
} from 'nestjs-idempotency';
import {
  FaultyStore,
  heldReply,
  lostReply,
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

function underTest(changes: Parameters<typeof healthOf>[1] = {}) {
  const records = new PromptStore();
  const store = new FaultyStore(records);
  const events = new IdempotencyEvents();
  const health = healthOf(store, { events, ...changes });
  const emit = (...types: IdempotencyEvent['type'][]) => {
    for (const type of types) events.emit({ type, error: new StoreUnavailableError() } as never);
  };
  return { records, store, events, health, emit };
}

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
      await health.check({ probe: 'write', maxAgeMs: 0 });
      const { command } = store.sentOf('begin').at(-1)!;
      keys.add('recordKey' in command && command.recordKey);
    }
    expect(keys.size).toBe(3);
  });

  it.each([
    ['unavailable', unavailable, 'idempotency_store_unavailable'],
    ['unknown', lostReply, 'idempotency_store_unavailable'],
    ['misconfigured', misconfigured, 'idempotency_store_misconfigured'],
    [
      'mismatched',
      throwing(new StoreReplyMismatchedError('x')),
      'idempotency_store_reply_mismatched',
    ],
    ['foreign', throwing(new TypeError('a secret')), 'idempotency_store_unavailable'],
    [
      'foreign with a code',
      throwing(Object.assign(new Error('x'), { code: 'idempotency_a_secret' })),
      'idempotency_store_unavailable',
    ],
    ['no error at all', throwing('a secret'), 'idempotency_store_unavailable'],
  ])('is down with a code of the library: %s', async (_, fault, errorType) => {
    const { store, health } = underTest();
    store.always(fault, 'inspect', 'begin');
    const expected = { ...CALM, status: 'down', latencyMs: 0, errorType };
    expect(await health.check()).toEqual(expected);
    expect(await health.check({ probe: 'write' })).toEqual(expected);
    expect(store.sentOf('release')).toEqual([]);
  });

  it('shows what is in progress, and the warnings of the store', async () => {
    const inProgress = { running: 3, waiting: 2 };
    const { health } = underTest({ inProgress: () => inProgress });
    for (const code of ['redis_may_evict', 'redis_not_durable', 'redis_may_evict']) {
      health.warned(code);
    }
    expect(await health.check()).toMatchObject({
      ...inProgress,
      status: 'up',
      warnings: ['redis_may_evict', 'redis_not_durable'],
    });
  });

  it.each([
    [{ probe: 'ping' }, '"probe" must be "read", "write", "observe"'],
    [{ timeoutMs: 0 }, '"timeoutMs" must be an integer from 1 to 60000'],
    [{ maxAgeMs: -1 }, '"maxAgeMs" must be an integer from 0 to 3600000'],
    [{ timeout: 5 }, '"timeout" is not an option of IdempotencyHealth.check()'],
  ])('rejects %j', async (options, message) => {
    const rejected = underTest().health.check(options as never);
    await expect(rejected).rejects.toThrow(IdempotencyOptionsError);
    await expect(rejected).rejects.toThrow(message);
  });
});

describe('concurrent and later checks', () => {
  it('share one probe, and its result until it is "maxAgeMs" old', async () => {
    const { store, health } = underTest();
    const gate = new Gate();
    gate.close();
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
    expect(await health.check({ maxAgeMs: 0 })).toMatchObject({ status: 'up' });
    expect(store.sent).toHaveLength(2);
  });

  it('of different kinds do not share', async () => {
    const { store, health } = underTest();
    store.always(unavailable, 'begin');
    expect(await health.check()).toMatchObject({ status: 'up' });
    expect(await health.check({ probe: 'write' })).toMatchObject({ status: 'down' });
    expect(await health.check()).toMatchObject({ status: 'up' });
  });

  it('wait no longer than their own "timeoutMs" for a store that never replies, and send it one command', async () => {
    const { store, health } = underTest();
    const gate = new Gate();
    gate.close();
    store.always(heldReply(gate), 'inspect');
    const long = health.check({ timeoutMs: 500 });
    const short = health.check({ timeoutMs: 200 });
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
    expect(await health.check({ maxAgeMs: 0 })).toMatchObject({ status: 'up' });
    expect(store.sent).toHaveLength(2);
  });
});

describe.each(['read', 'write', 'observe'] as const)('a check with "%s"', (probe) => {
  it('is down without a command while the breaker is open', async () => {
    let breaker: 'closed' | 'open' = 'closed';
    const { store, health } = underTest({ breaker: () => breaker });
    expect(await health.check({ probe })).toMatchObject({ status: 'up', breaker: 'closed' });
    const before = store.sent.length;
    breaker = 'open';
    expect(await health.check({ probe, maxAgeMs: 0 })).toEqual({ ...DOWN, breaker: 'open' });
    expect(store.sent).toHaveLength(before);
    breaker = 'closed';
    expect(await health.check({ probe, maxAgeMs: 0 })).toMatchObject({ status: 'up' });
  });

  it('is down without a command during the shutdown', async () => {
    const { store, health } = underTest({ breaker: () => 'open' });
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
  const gate = new Gate();
  gate.close();
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
    const { store, events, health, emit } = underTest();
    expect(events.hasSubscribers).toBe(false);
    emit('store_unavailable');
    expect(await health.check(observe)).toEqual({ ...CALM, status: 'up' });
    expect(store.sent).toEqual([]);
  });

  it('is down while more than half of the commands got no reply', async () => {
    const { health, emit } = underTest();
    await health.check(observe);
    emit('acquired', 'replayed', 'store_unavailable', 'save_delayed');
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
    emit('store_unavailable');
    expect(await health.check(observe)).toEqual(DOWN);
    emit('completed');
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
  });

  it.each(['acquired', 'takeover', 'replayed', 'completed', 'released'] as const)(
    'counts %s as a reply',
    async (type) => {
      const { health, emit } = underTest();
      await health.check(observe);
      emit('save_delayed');
      expect(await health.check(observe)).toEqual(DOWN);
      emit(type);
      expect(await health.check(observe)).toMatchObject({ status: 'up' });
    },
  );

  it('counts no event twice, and none that says nothing of the store', async () => {
    const { health, emit } = underTest();
    await health.check(observe);
    emit('store_unavailable', 'rejected', 'lease_lost', 'waited', 'acquired');
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
  });

  it('forgets what is older than ten seconds', async () => {
    const { health, emit } = underTest();
    await health.check(observe);
    emit('store_unavailable');
    await jest.advanceTimersByTimeAsync(8_999);
    expect(await health.check(observe)).toMatchObject({ status: 'down' });
    await jest.advanceTimersByTimeAsync(1_001);
    expect(await health.check(observe)).toMatchObject({ status: 'up' });
    emit('store_unavailable');
    expect(await health.check(observe)).toMatchObject({ status: 'down' });
  });

  it('names the last failure', async () => {
    const { events, health } = underTest();
    await health.check(observe);
    events.emit({ type: 'store_unavailable', error: new StoreConfigurationError() } as never);
    expect(await health.check(observe)).toMatchObject({
      errorType: 'idempotency_store_misconfigured',
    });
  });
});
