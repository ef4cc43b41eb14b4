import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  currentIdempotencyContext,
  IdempotencyEvents,
  IdempotencyMeter,
  IdempotencyReconciler,
  IdempotencyService,
  IdempotencyStore,
  type IdempotencyEvent,
  type IdempotentCall,
} from 'nestjs-idempotency';
import {
  IdempotencyTestClock,
  IdempotencyTestingModule,
  IdempotencyTestRecords,
  type IdempotencyTestingOptions,
} from 'nestjs-idempotency/testing';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import { Gate } from '../../support/waiting/gate.js';

const MAX_EXECUTION_MS = 120_000;
const WAIT_MS = 30_000;

const call: IdempotentCall = {
  ...{ operation: 'send', key: 'k', scope: ['alice'] },
  duplicates: { mode: 'wait', timeoutMs: WAIT_MS },
  lease: { durationMs: LEASE_MS, maxExecutionMs: MAX_EXECUTION_MS },
};

let module: TestingModule | undefined;
afterEach(async () => {
  jest.useRealTimers();
  await module?.close();
  module = undefined;
});

async function started(options: IdempotencyTestingOptions = {}) {
  const imports = [IdempotencyTestingModule.inMemory(options)];
  module = await (await Test.createTestingModule({ imports }).compile()).init();
  const events: IdempotencyEvent[] = [];
  module.get(IdempotencyEvents).subscribe((event) => events.push(event));
  return {
    events,
    clock: module.get(IdempotencyTestClock),
    calls: module.get(IdempotencyService),
    records: module.get(IdempotencyTestRecords),
    store: module.get(IdempotencyStore),
    of: <Type extends IdempotencyEvent['type']>(type: Type) =>
      events.filter(
        (event): event is Extract<IdempotencyEvent, { type: Type }> => event.type === type,
      ),
  };
}

/** An operation that ends when the test says so. */
function held() {
  const gate = new Gate();
  gate.close();
  const signals: (AbortSignal | undefined)[] = [];
  const run = async () => {
    signals.push(currentIdempotencyContext()?.signal);
    await gate.pass();
    return 'sent';
  };
  return { gate, signals, run };
}

/** How a promise has ended so far. */
function watched(promise: Promise<unknown>): { ended: unknown } {
  const state: { ended: unknown } = { ended: undefined };
  const end = (ended: unknown) => void (state.ended = ended);
  promise.then(end, end);
  return state;
}

describe('advance()', () => {
  it('ends a wait at its own instant, and no earlier', async () => {
    const { clock, calls, of } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    await clock.advance(WAIT_MS - 1_000);
    expect(duplicate.ended).toBeUndefined();
    await clock.advance(1_001);
    expect(duplicate.ended).toMatchObject({ code: 'idempotency_in_progress' });
    expect(of('waited')[0]!.waitedMs).toBeCloseTo(WAIT_MS, 0);
    first.gate.open();
    expect(await running).toBe('sent');
  });

  it('lets heartbeats go on, up to the deadline of the attempt', async () => {
    const { clock, calls, of, records } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    await clock.advance(MAX_EXECUTION_MS - 1_000);
    expect(first.signals[0]).toMatchObject({ aborted: false });
    expect(of('slow_attempt')[0]!.elapsedMs).toBeCloseTo(MAX_EXECUTION_MS / 2, 3);
    expect(await records.list()).toMatchObject([{ state: 'in_progress', takeovers: 0 }]);
    await clock.advance(1_000);
    expect(first.signals[0]).toMatchObject({ aborted: true, reason: 'max_execution' });
    expect(of('lease_lost')).toHaveLength(1);
    first.gate.open();
    await running;
  });

  it('is the clock of the meter, too', async () => {
    const { clock, calls } = await started();
    await clock.advance(3_600_000);
    const first = held();
    const running = calls.run(call, first.run);
    await clock.advance(LEASE_MS);
    first.gate.open();
    await running;
    const { commands } = module!.get(IdempotencyMeter).read().store;
    expect(commands.map(({ command }) => command).sort()).toEqual(['begin', 'complete', 'extend']);
    // Time stands still while a heartbeat is sent.
    const { duration } = commands.find(({ command }) => command === 'extend')!;
    expect(duration).toMatchObject({ count: 3, sum: 0 });
  });

  it('runs the reconciler on its schedule', async () => {
    const { clock, of } = await started({ reconcile: { intervalMs: 60_000 } });
    await clock.advance(60_000);
    expect(of('reconciled')).not.toEqual([]);
    await clock.advance(600_000);
    expect(of('reconciled').length).toBeGreaterThanOrEqual(11);
    expect(of('reconciled').length).toBeLessThanOrEqual(22);
  });

  it('does not wait for operations, and may be called by one', async () => {
    const { clock, calls } = await started();
    const sent = calls.run(call, async () => {
      await clock.advance(60_000);
      return 'sent';
    });
    await clock.advance(60_000);
    expect(await sent).toBe('sent');
  });

  it('moves one step at a time, in the order of its calls', async () => {
    const { clock, calls } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    const [half, whole] = [clock.advance(WAIT_MS / 2), clock.advance(WAIT_MS)];
    await half;
    expect(duplicate.ended).toBeUndefined();
    await whole;
    expect(duplicate.ended).toBeDefined();
    first.gate.open();
    await running;
  });

  it('leaves time to itself when it is not called', async () => {
    const { calls } = await started();
    const options = { ...call, duplicates: { mode: 'wait', timeoutMs: 20 } } as const;
    const first = held();
    const running = calls.run(options, first.run);
    await expect(calls.run(options, () => 'sent twice')).rejects.toMatchObject({
      code: 'idempotency_in_progress',
    });
    first.gate.open();
    await running;
  });

  it('and fake timers of a test runner both move it', async () => {
    jest.useFakeTimers();
    const { clock, calls } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    await jest.advanceTimersByTimeAsync(WAIT_MS / 2);
    await clock.advance(WAIT_MS / 4);
    expect(duplicate.ended).toBeUndefined();
    await jest.advanceTimersByTimeAsync(WAIT_MS / 4);
    expect(duplicate.ended).toMatchObject({ code: 'idempotency_in_progress' });
    first.gate.open();
    await running;
  });
});

describe('runUntilIdle()', () => {
  it('ends at once when nothing is to be done', async () => {
    const { clock, calls, of } = await started({ reconcile: { intervalMs: 60_000 } });
    await clock.runUntilIdle();
    await calls.run(call, () => 'sent');
    await clock.runUntilIdle();
    expect(of('reconciled')).toEqual([]);
  });

  it('goes on until a duplicate has taken over from a process that died', async () => {
    const { clock, calls, store, of } = await started();
    await abandon(store, call.operation, call.key);
    const waiting = watched(calls.run(call, () => 'sent'));
    await clock.runUntilIdle();
    expect(waiting.ended).toBe('sent');
    expect(of('waited')[0]!.waitedMs).toBeGreaterThan(LEASE_MS / 2);
    expect(of('waited')[0]!.waitedMs).toBeLessThan(LEASE_MS + 1_000);
  });

  it('waits for an operation, and does not move time over it', async () => {
    const { clock, calls, events } = await started();
    const running = watched(calls.run(call, () => delay(20, 'sent')));
    const duplicate = watched(calls.run(call, () => 'sent twice'));
    await clock.runUntilIdle();
    expect([running.ended, duplicate.ended]).toEqual(['sent', 'sent']);
    const types = events.map(({ type }) => type);
    expect(types).not.toContain('slow_attempt');
    expect(types).not.toContain('lease_lost');
  });

  it('goes on until a pause of the library is over', async () => {
    const { clock, store } = await started({ reconcile: { batchSize: 1, afterMs: 0 } });
    await abandon(store, call.operation, 'one');
    await abandon(store, call.operation, 'other');
    await clock.advance(LEASE_MS);
    const round = watched(module!.get(IdempotencyReconciler).reconcile());
    await clock.runUntilIdle();
    expect(round.ended).toMatchObject({ unknown: 1, coverage: 'partial' });
  });

  it('rejects with the name of an operation that does not end', async () => {
    const { clock, calls } = await started();
    const first = held();
    const running = calls.run(call, first.run);
    await expect(clock.runUntilIdle(50)).rejects.toThrow(
      'IdempotencyTestClock.runUntilIdle() ended after 50 ms of real time. Operations that still run: send; that duplicates wait for: none.',
    );
    first.gate.open();
    expect(await running).toBe('sent');
    await clock.runUntilIdle(50);
  });

  it.each([0, 0.5, 'soon' as never])('rejects a limit of %s ms', async (ms) => {
    const { clock } = await started();
    await expect(clock.runUntilIdle(ms)).rejects.toThrow(
      'The option "timeoutMs" must be an integer from 1',
    );
  });
});
