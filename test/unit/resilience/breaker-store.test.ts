import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { StoreOutcomeUnknownError, StoreUnavailableError } from 'nestjs-idempotency';
import { MemoryIdempotencyStore } from 'nestjs-idempotency/memory';
import opossum from 'opossum';
import type { TransactionalRecords } from '../../support/internals/core.js';
import type { OpossumConstructor } from '../../support/internals/breaker.js';
import {
  heldRequest,
  lostReply,
  lostRequest,
  misconfigured,
  unavailable,
  type Fault,
  type Step,
} from '../../support/stores/faulty-store.js';
import { PromptStore } from '../../support/stores/prompt-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { promisesOf } from '../../support/waiting/promises-of.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { BreakerUnderTest, PROBE_TIMEOUT_MS } from './breaker-under-test.js';

const STEPS: readonly Step[] = ['begin', 'extend', 'complete', 'release', 'inspect'];
const REJECTED: readonly Step[] = ['begin', 'inspect'];
const PASSED: readonly Step[] = ['extend', 'complete', 'release'];

const held =
  (gate: Gate, fault: Fault): Fault =>
  async (execute) => {
    await gate.pass();
    return fault(execute);
  };

/** How many promises are created until nothing is left to do. */
const promisesIn = (start: () => Promise<unknown>) =>
  promisesOf(async () => {
    void start();
    for (let tick = 0; tick < 20; tick += 1) await Promise.resolve();
  });

const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

describe('a closed circuit', () => {
  it("rejects with the store's own error", async () => {
    const breaker = new BreakerUnderTest();
    for (const fault of [unavailable, lostRequest, misconfigured]) {
      const planned = await fault(() => Promise.resolve()).catch((error: unknown) => error);
      breaker.inner.next('begin', fault);
      await expect(breaker.send('begin')).rejects.toEqual(planned);
    }
  });

  it.each(STEPS)(
    "returns the store's own promise of %s, and creates two besides those of opossum",
    async (step) => {
      const breaker = new BreakerUnderTest();
      const reply = Promise.resolve<never>(undefined as never);
      jest.spyOn(breaker.inner, step as 'begin').mockReturnValue(reply);
      expect(breaker.send(step)).toBe(reply);
      const bare = new opossum(() => reply, { timeout: false });
      // The first call creates more.
      await promisesIn(() => bare.fire());
      const ofOpossum = await promisesIn(() => bare.fire());
      bare.shutdown();
      expect(await promisesIn(() => breaker.send(step))).toBe(ofOpossum + 2);
    },
  );

  it.each(
    STEPS.flatMap((step) => [
      [step, 'unavailable', unavailable] as const,
      [step, 'unknown', lostReply] as const,
    ]),
  )('opens when commands fail: %s, %s', async (step, _, fault) => {
    const breaker = new BreakerUnderTest();
    const { volumeThreshold } = breaker.settings;
    await breaker.sendMany(volumeThreshold - 1, step, fault);
    expect(breaker.reported).toEqual([]);
    await breaker.sendMany(1, step, fault);
    expect(breaker.events).toMatchObject([
      { type: 'breaker_opened', error: { message: expect.stringMatching(/^planned/) } },
    ]);
  });

  it('stays closed over a store that answers: a wrong configuration, a rejection by the protocol', async () => {
    const breaker = new BreakerUnderTest();
    const lease = breaker.newLease();
    await breaker.send('begin', lease);
    const other = { ...breaker.newLease(), recordKey: lease.recordKey };
    for (let time = 0; time < 2 * breaker.settings.volumeThreshold; time += 1) {
      await breaker.sendMany(1, 'begin', misconfigured);
      expect(await breaker.send('begin', other)).toMatchObject({ kind: 'in_progress' });
      expect(await breaker.send('complete', other)).toMatchObject({ kind: 'lost' });
    }
    expect(breaker.reported).toEqual([]);
  });

  it.each([
    ['unavailable', StoreUnavailableError],
    ['unknown', StoreOutcomeUnknownError],
  ])('stays closed over a rejection by a store that answers: %s', async (_, Failure) => {
    const breaker = new BreakerUnderTest();
    const rejected: Fault = () => Promise.reject(new Failure('planned', { isRejection: true }));
    await breaker.sendMany(2 * breaker.settings.volumeThreshold, 'begin', rejected);
    expect(breaker.reported).toEqual([]);
    const withoutResponse: Fault = () =>
      Promise.reject(new Failure('planned', { isRejection: false }));
    await breaker.sendMany(3 * breaker.settings.volumeThreshold, 'begin', withoutResponse);
    expect(breaker.reported).toEqual(['breaker_opened']);
  });

  it('stays closed over a memory store that is full', async () => {
    const breaker = new BreakerUnderTest({}, new PromptStore({ maxRecords: 1 }));
    await breaker.send('begin');
    await breaker.sendMany(2 * breaker.settings.volumeThreshold, 'begin');
    await expect(breaker.send('begin')).rejects.toThrow('"maxRecords"');
    expect(breaker.reported).toEqual([]);
  });

  it('opens above the threshold, not at it', async () => {
    const breaker = new BreakerUnderTest({ errorThresholdPercentage: 25 });
    await breaker.sendMany(15, 'begin');
    await breaker.sendMany(5, 'begin', unavailable);
    expect(breaker.reported).toEqual([]);
    await breaker.sendMany(1, 'begin', unavailable);
    expect(breaker.reported).toEqual(['breaker_opened']);
  });

  it('forgets what is older than its window', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.sendMany(breaker.settings.volumeThreshold - 1, 'begin', unavailable);
    await pass(breaker.settings.window);
    await breaker.sendMany(1, 'begin', unavailable);
    expect(breaker.reported).toEqual([]);
  });

  it('counts completed commands: pending ones are not successes', async () => {
    const breaker = new BreakerUnderTest();
    const gate = Gate.closed();
    const out = Array.from({ length: 100 }, () => {
      breaker.inner.next('begin', heldRequest(gate));
      return breaker.send('begin');
    });
    await breaker.open();
    expect(breaker.reported).toEqual(['breaker_opened']);
    gate.open();
    await Promise.all(out);
  });
});

describe('an open circuit', () => {
  it.each(REJECTED)('rejects %s at once, without a call to the store', async (step) => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    const sent = breaker.inner.sent.length;
    await expect(breaker.send(step)).rejects.toThrow(StoreUnavailableError);
    await expect(breaker.send(step)).rejects.toThrow('circuit breaker is open');
    expect(breaker.inner.sent).toHaveLength(sent);
  });

  it.each(PASSED)(
    'sends %s all the same: it belongs to an operation that runs or is done',
    async (step) => {
      const breaker = new BreakerUnderTest();
      const lease = breaker.newLease();
      await breaker.send('begin', lease);
      // Failures beyond a share of half.
      await breaker.open();
      expect(breaker.reported).toEqual(['breaker_opened']);
      expect(await breaker.send(step, lease)).toEqual({ kind: 'ok' });
      breaker.inner.next(step, lostReply);
      await expect(breaker.send(step, lease)).rejects.toThrow('planned: lost reply');
    },
  );

  it('stays open whatever their outcome, until the store was probed', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    await breaker.sendMany(2 * breaker.settings.volumeThreshold, 'complete');
    await expect(breaker.send('begin')).rejects.toThrow('circuit breaker is open');
    expect(breaker.reported).toEqual(['breaker_opened']);
  });
});

describe('a probe', () => {
  it('is sent by the breaker itself, with inspect, for a record that no client can have', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    const { length } = breaker.inner.sent;
    const inspect = jest.spyOn(breaker.inner, 'inspect');
    await pass(breaker.settings.probeInterval - 1);
    expect(breaker.inner.sent).toHaveLength(length);
    await pass(1);
    expect(breaker.inner.sent.slice(length).map(({ step }) => step)).toEqual(['inspect']);
    const [[recordKey, command] = []] = inspect.mock.calls;
    // A client's is a digest of 43 characters.
    expect(recordKey).toMatch(/^[\w-]{48}$/);
    expect(recordKey).not.toHaveLength(breaker.newLease().recordKey.length);
    expect(command).toEqual({ timeoutMs: PROBE_TIMEOUT_MS });
  });

  it('reads another record each time: an unavailable shard of a cluster does not fail them all', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    breaker.inner.always(lostRequest, 'inspect');
    const inspect = jest.spyOn(breaker.inner, 'inspect');
    await pass(100 * breaker.settings.probeInterval);
    const probed = inspect.mock.calls.map(([recordKey]) => recordKey);
    expect(probed).toHaveLength(100);
    expect(new Set(probed).size).toBe(100);
    // Text in braces would alone determine the slot.
    expect(probed.join()).not.toContain('{');
  });

  it('that succeeds closes the circuit', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    await pass(breaker.settings.probeInterval);
    expect(breaker.reported).toEqual(['breaker_opened', 'breaker_half_open', 'breaker_closed']);
    expect(await breaker.send('begin')).toMatchObject({ kind: 'acquired' });
  });

  it('is awaited: requests are rejected until it succeeded', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    const gate = Gate.closed();
    breaker.inner.next('inspect', heldRequest(gate));
    await pass(breaker.settings.probeInterval);
    expect(breaker.reported).toEqual(['breaker_opened', 'breaker_half_open']);
    for (const step of REJECTED) {
      await expect(breaker.send(step)).rejects.toThrow('circuit breaker is open');
    }
    gate.open();
    await pass(0);
    expect(await breaker.send('begin')).toMatchObject({ kind: 'acquired' });
  });

  it('that fails keeps the circuit open, and is followed by the next one', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    breaker.inner.always(lostRequest, 'inspect');
    const { probeInterval: probeIntervalMs } = breaker.settings;
    await pass(3 * probeIntervalMs);
    expect(breaker.inner.sentOf('inspect')).toHaveLength(3);
    await expect(breaker.send('begin')).rejects.toThrow('circuit breaker is open');
    breaker.inner.heal();
    await pass(probeIntervalMs);
    const again = ['breaker_half_open', 'breaker_opened'];
    expect(breaker.reported).toEqual([
      'breaker_opened',
      ...again,
      ...again,
      ...again,
      'breaker_half_open',
      'breaker_closed',
    ]);
    expect(breaker.events[2]).toMatchObject({ error: { message: 'planned: lost request' } });
  });

  it('that finds a wrong configuration closes the circuit: the store answers, and reports it better', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    breaker.inner.always(misconfigured, 'inspect', 'begin');
    await pass(breaker.settings.probeInterval);
    expect(breaker.reported.at(-1)).toBe('breaker_closed');
    await expect(breaker.send('begin')).rejects.toThrow('planned: misconfigured');
  });
});

describe('a command sent before the circuit changed', () => {
  const responded: Fault = (execute) => execute();

  it.each([
    ['fails', lostReply],
    ['completes', responded],
  ])('does not decide a half-open one when it %s', async (_, fault) => {
    const breaker = new BreakerUnderTest();
    const [late, probe] = [Gate.closed(), Gate.closed()];
    breaker.inner.next('begin', held(late, fault));
    const sent = breaker.send('begin').catch(() => undefined);
    await breaker.open();
    breaker.inner.next('inspect', heldRequest(probe));
    await pass(breaker.settings.probeInterval);
    late.open();
    await sent;
    await pass(0);
    expect(breaker.reported.at(-1)).toBe('breaker_half_open');
    probe.open();
    await pass(0);
    expect(breaker.reported.at(-1)).toBe('breaker_closed');
  });

  it('does not open one that has closed again', async () => {
    const breaker = new BreakerUnderTest();
    const late = Gate.closed();
    const sent = Array.from({ length: breaker.settings.volumeThreshold }, () => {
      breaker.inner.next('begin', held(late, lostReply));
      return breaker.send('begin').catch(() => undefined);
    });
    await breaker.open();
    await pass(breaker.settings.probeInterval);
    late.open();
    await Promise.all(sent);
    await pass(0);
    expect(breaker.reported.at(-1)).toBe('breaker_closed');
  });
});

describe('a circuit that has closed again', () => {
  it('starts with an empty window: it takes as many failures to open as the first time', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    await pass(breaker.settings.probeInterval);
    await breaker.sendMany(breaker.settings.volumeThreshold - 1, 'begin', unavailable);
    expect(breaker.reported.at(-1)).toBe('breaker_closed');
    await breaker.sendMany(1, 'begin', unavailable);
    expect(breaker.reported.at(-1)).toBe('breaker_opened');
  });
});

describe('the state of the circuit', () => {
  it('is what its last event says', async () => {
    const breaker = new BreakerUnderTest();
    const states = [breaker.store.breaker];
    await breaker.open();
    states.push(breaker.store.breaker);
    const gate = Gate.closed();
    breaker.inner.next('inspect', lostRequest, heldRequest(gate));
    await pass(breaker.settings.probeInterval);
    states.push(breaker.store.breaker);
    await pass(breaker.settings.probeInterval);
    states.push(breaker.store.breaker);
    gate.open();
    await pass(0);
    states.push(breaker.store.breaker);
    expect(states).toEqual(['closed', 'open', 'open', 'half_open', 'closed']);
  });

  it.each([0, 1_000])(
    'is closed once the store is closed, and that of a new circuit once it is opened again: %d ms after it opened',
    async (ms) => {
      const breaker = new BreakerUnderTest();
      await breaker.store.open();
      await breaker.open();
      const gate = Gate.closed();
      breaker.inner.next('inspect', held(gate, lostRequest));
      await pass(ms);
      expect(breaker.store.breaker).toBe(ms === 0 ? 'open' : 'half_open');
      await breaker.store.close();
      expect(breaker.store.breaker).toBe('closed');
      await breaker.store.open();
      // The probe of the earlier circuit fails.
      gate.open();
      await pass(breaker.settings.probeInterval);
      expect(breaker.store.breaker).toBe('closed');
      expect(await breaker.send('begin')).toMatchObject({ kind: 'acquired' });
      await breaker.open();
      expect(breaker.store.breaker).toBe('open');
    },
  );
});

describe('a store that throws instead of rejecting', () => {
  it('is counted like any other', async () => {
    const breaker = new BreakerUnderTest();
    const throwing: Fault = () => {
      throw new StoreUnavailableError('planned: thrown');
    };
    await breaker.sendMany(breaker.settings.volumeThreshold, 'extend', throwing);
    expect(breaker.reported).toEqual(['breaker_opened']);
  });
});

describe('the other methods of a store', () => {
  it('are delegated: open and its warnings, watching, close', async () => {
    const breaker = new BreakerUnderTest();
    const warnings = [{ code: 'planned', message: 'a warning' }];
    const stop = () => undefined;
    jest.spyOn(breaker.inner, 'open').mockResolvedValue(warnings);
    const watch = jest.spyOn(breaker.inner, 'watch').mockResolvedValue(stop);
    await breaker.open();
    expect(await breaker.store.open()).toBe(warnings);
    const { recordKey } = breaker.newLease();
    const onEnd = () => undefined;
    expect(await breaker.store.watch(recordKey, onEnd, { timeoutMs: 1 })).toBe(stop);
    expect(watch).toHaveBeenCalledWith(recordKey, onEnd, { timeoutMs: 1 });
    await breaker.store.close();
    expect(breaker.inner.closed).toBe(true);
  });

  it.each([
    ['a closed circuit', async () => undefined],
    ['an open one', (breaker: BreakerUnderTest) => breaker.open()],
    [
      'a half-open one',
      async (breaker: BreakerUnderTest) => {
        breaker.inner.next('inspect', heldRequest(Gate.closed()));
        await breaker.open();
        await pass(breaker.settings.probeInterval);
      },
    ],
  ])('close stops the timers of %s, and leaves the rest to the store', async (_, bringAbout) => {
    const breaker = new BreakerUnderTest();
    await bringAbout(breaker);
    expect(jest.getTimerCount()).toBeGreaterThan(0);
    await breaker.store.close();
    expect(jest.getTimerCount()).toBe(0);
    const { reported } = breaker;
    await expect(breaker.send('begin')).rejects.toThrow('The memory store is closed.');
    await pass(2 * breaker.settings.probeInterval);
    expect(breaker.reported).toEqual(reported);
  });
});

describe('the list of abandoned records', () => {
  const command = { overMs: 0, limit: 10, timeoutMs: 1_000 };

  it("is the store's own, and its failures open nothing", async () => {
    const page = { records: [], cursor: 'where it ended' };
    let response = () => Promise.resolve(page);
    class Listing extends MemoryIdempotencyStore {
      override abandoned() {
        return response();
      }
    }
    const breaker = new BreakerUnderTest({}, new Listing());
    expect(await breaker.store.abandoned(command)).toBe(page);
    const error = new StoreUnavailableError('planned');
    response = () => Promise.reject(error);
    for (let asked = 0; asked < 2 * breaker.settings.volumeThreshold; asked += 1) {
      await expect(breaker.store.abandoned(command)).rejects.toBe(error);
    }
    expect(breaker.reported).toEqual([]);
  });

  it('is rejected at once while the circuit is open', async () => {
    const breaker = new BreakerUnderTest();
    await breaker.open();
    const pages = { ...command, maxScanned: 10 };
    await expect(breaker.store.abandoned(command)).rejects.toThrow('circuit breaker is open');
    await expect(breaker.store.list(pages)).rejects.toThrow('circuit breaker is open');
  });
});

it("returns the store's transactional records, even with an open circuit", async () => {
  const records = {} as TransactionalRecords;
  const breaker = new BreakerUnderTest();
  expect(breaker.store.transactional).toBeUndefined();
  Object.defineProperty(breaker.inner, 'transactional', { value: records });
  expect(breaker.store.transactional).toBe(records);
  await breaker.open();
  expect(breaker.store.transactional).toBe(records);
});

it('no timer of an open circuit keeps the process alive', async () => {
  jest.useRealTimers();
  const script = fileURLToPath(new URL('open-circuit-process.ts', import.meta.url));
  // A process that the time limit ends rejects.
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...typescriptNodeOptions, script],
    { timeout: 20_000 },
  );
  expect(stdout.trim()).toBe('breaker_opened');
});

it('the structure of opossum that the library declares matches the package', async () => {
  const Breaker: OpossumConstructor = opossum;
  const breaker = new Breaker((work) => work(), {} as never);
  expect(await breaker.fire(() => Promise.resolve('done'))).toBe('done');
  breaker.shutdown();
});
