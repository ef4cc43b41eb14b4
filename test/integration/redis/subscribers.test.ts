import { describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, type IdempotencyEvent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { DEFAULT_LIMITS, IdempotencyEngine } from '../../support/internals/core.js';
import { LogReporter } from '../../support/internals/nest.js';
import { CallTransport } from '../../support/internals/call.js';
import { noServices } from '../../support/engine/protocol-options.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { newCall } from '../../support/engine/caller.js';

const critical: IdempotencyEvent = {
  type: 'store_unavailable',
  operation: 'pay',
  recordKey: 'digest' as never,
  source: 'request',
  error: new Error('down'),
};

describe('a listener that was subscribed twice', () => {
  it('is called twice, and once after one of its subscriptions ended', () => {
    const events = new IdempotencyEvents();
    let reported = 0;
    const listener = () => void (reported += 1);
    const leave = events.subscribe(listener);
    events.subscribe(listener);
    events.emit(critical);
    expect(reported).toBe(2);
    leave();
    leave();
    events.emit(critical);
    expect(reported).toBe(3);
  });

  it('replaces the log until the subscription with replacesLog has ended', () => {
    const events = new IdempotencyEvents();
    let logged = 0;
    events.reportTo({ report: () => void (logged += 1), subscriberFailed: () => undefined });
    const listener = () => undefined;
    const replacing = events.subscribe(listener, { replacesLog: true });
    const leave = events.subscribe(listener);
    leave();
    events.emit(critical);
    expect(logged).toBe(0);
    replacing();
    events.emit(critical);
    expect(logged).toBe(1);
  });
});

describe('a logger that throws', () => {
  const broken = () => {
    throw new Error('planned: the logger is down');
  };
  const logger = { log: broken, error: broken, warn: broken };

  it('fails no request, and leaves no attempt open', async () => {
    const events = new IdempotencyEvents();
    events.reportTo(new LogReporter(logger));
    events.subscribe(broken);
    const store = new FaultyStore(memoryStore());
    const engine = new IdempotencyEngine(store, events, DEFAULT_LIMITS);
    const calls = new CallTransport(engine, noServices);
    store.next('begin', unavailable);
    const call = newCall({ storeErrors: { whenUnavailable: 'execute' } });
    const paid = { kind: 'value', value: 'paid' };
    expect(await calls.settle(call, () => 'paid')).toMatchObject(paid);
    expect(await calls.settle(call, () => 'paid again')).toMatchObject(paid);
    expect(await engine.drain()).toBe(0);
  });
});

describe('an asynchronous subscriber that fails', () => {
  const failing: [string, () => unknown][] = [
    ['a promise', () => Promise.reject(new Error('planned: metrics are down'))],
    [
      'a promise that fails later',
      async () => {
        await new Promise(setImmediate);
        throw new Error('planned: metrics are down');
      },
    ],
  ];

  it.each(failing)('does not end the process, even when its logger throws: %s', async (_, fail) => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    try {
      const events = new IdempotencyEvents();
      events.reportTo({
        report: () => undefined,
        subscriberFailed: () => {
          throw new Error('planned: the logger is down');
        },
      });
      events.subscribe(fail);
      events.emit(critical);
      for (let round = 0; round < 5; round += 1) await new Promise(setImmediate);
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
    }
  });
});
