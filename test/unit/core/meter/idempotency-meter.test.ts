import { describe, expect, it } from '@jest/globals';
import {
  IdempotencyMeter,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreReplyMismatchedError,
  StoreUnavailableError,
} from 'nestjs-idempotency';
import { StandingClock } from '../../../support/clocks/standing-clock.js';
import { metered, subject } from '../../../support/metrics/counted.js';

const MAX_NAMES = 200;

/** Of what need not be counted. */
const SOURCE: Parameters<IdempotencyMeter['readFrom']>[0] = {
  running: () => [],
  waiting: () => [],
  store: {
    system: 'redis',
    breaker: undefined,
    deletedRecords: undefined,
    missedEntries: undefined,
  },
};

const ofPay = (meter: IdempotencyMeter) => meter.read().operations.get('pay')!;

describe('the reading of an operation', () => {
  it('has what shows a problem at 0 from its declaration, and nothing else', () => {
    const meter = new IdempotencyMeter();
    meter.declare('pay', 'http');
    meter.declare('send');
    const { operations, store, reconciled } = meter.read();
    expect([...operations.keys()]).toEqual(['pay', 'send']);
    const { incidents, leaseLosses, ...others } = operations.get('pay')!;
    const numbers = [incidents, leaseLosses].flatMap((counts) => Object.values(counts));
    expect(new Set(numbers)).toEqual(new Set([0]));
    expect(Object.keys(incidents)).toHaveLength(19);
    expect(others).toEqual({
      requests: { http: { unprotected: 0 } },
      ...{ takeovers: 0, unreadable: {}, attempts: {}, waits: {}, running: 0, waiting: 0 },
    });
    expect(operations.get('send')!.requests).toEqual({ call: { unprotected: 0 } });
    expect(store).toEqual({ system: 'custom', commands: [] });
    expect(new Set(Object.values(reconciled))).toEqual(new Set([0]));
  });

  it('is of its own time: later events do not change it', () => {
    const meter = metered({ type: 'replayed' }, { type: 'superseded' });
    const before = ofPay(meter);
    const copy = structuredClone(before);
    meter.count({ ...subject, type: 'superseded' });
    meter.replayed(subject);
    expect(before).toEqual(copy);
    expect(ofPay(meter).incidents.superseded).toBe(2);
  });

  it('has what runs and waits at its own time, not since the start', () => {
    const meter = new IdempotencyMeter();
    let attempts = [{ subject: subject as never, elapsedMs: 1, leaseLeftMs: 2 }];
    meter.readFrom({ ...SOURCE, running: () => attempts, waiting: () => [subject, subject] });
    expect(ofPay(meter)).toMatchObject({ running: 1, waiting: 2 });
    expect(ofPay(meter)).toMatchObject({ running: 1, waiting: 2 });
    attempts = [];
    expect(ofPay(meter)).toMatchObject({ running: 0, waiting: 2 });
  });

  it('has durations in seconds, by buckets whose upper bounds are inclusive', () => {
    const ended = (durationMs: number) => ({ type: 'ended', how: 'completed', durationMs });
    const { kept } = ofPay(
      metered(ended(0), ended(5), ended(5.001), ended(300_000), ended(300_001)),
    ).attempts;
    const { bounds, counts, count, sum } = kept!;
    expect(bounds[0]).toBe(0.005);
    expect(bounds.at(-1)).toBe(300);
    expect(counts).toHaveLength(bounds.length + 1);
    expect([counts[0], counts[1], counts.at(-2), counts.at(-1)]).toEqual([2, 1, 1, 1]);
    expect(count).toBe(5);
    expect(sum).toBeCloseTo(600.011_001, 6);
  });

  it('counts neither a request nor a duration for the reconciler', () => {
    const own = { transport: undefined, how: 'recovered', durationMs: 5 };
    const { requests, attempts, takeovers } = ofPay(
      metered(
        { type: 'takeover', ...own },
        { type: 'ended', ...own },
        { type: 'rejected', ...own, reason: 'in_progress' },
      ),
    );
    expect({ requests, attempts, takeovers }).toEqual({ requests: {}, attempts: {}, takeovers: 1 });
  });
});

it('counts at most 200 operations by name, and loses no number of the others', () => {
  const warnings: string[] = [];
  const meter = new IdempotencyMeter((message) => warnings.push(message));
  const names = Array.from({ length: 10_000 }, (_, index) => `operation-${index}`);
  for (const [index, operation] of names.entries()) {
    meter.replayed({ ...subject, operation });
    expect(warnings).toHaveLength(index < MAX_NAMES ? 0 : 1);
  }
  expect(warnings[0]).toContain('IdempotencyService.run({ operation })');
  expect(warnings[0]).not.toContain('operation-');
  meter.readFrom({
    ...SOURCE,
    running: () => [
      { subject: { ...subject, operation: names.at(-1) } as never, elapsedMs: 1, leaseLeftMs: 2 },
    ],
    waiting: () => [{ operation: names[0]! }, { operation: 'operation-9000' }],
  });
  const { operations } = meter.read();
  expect([...operations.keys()]).toEqual([...names.slice(0, MAX_NAMES), '_OTHER']);
  const replayed = [...operations.values()].map(({ requests }) => requests.http?.replayed ?? 0);
  expect(replayed).toEqual([...Array<number>(MAX_NAMES).fill(1), names.length - MAX_NAMES]);
  expect(operations.get('_OTHER')).toMatchObject({ running: 1, waiting: 1 });
  expect(operations.get(names[0]!)).toMatchObject({ running: 0, waiting: 1 });
  expect(meter.running()).toEqual([
    { ...subject, operation: 'operation-9999', elapsedMs: 1, leaseLeftMs: 2 },
  ]);
});

describe('the reading of the store', () => {
  it('has the last failure', () => {
    const before = Date.now();
    const error = new StoreUnavailableError('down');
    const { lastFailure } = metered({ type: 'store_unavailable', error }).read().store;
    expect(lastFailure?.errorType).toBe('idempotency_store_unavailable');
    expect(lastFailure?.at).toBeGreaterThanOrEqual(before);
  });

  it.each([
    [SOURCE.store, { system: 'redis' }],
    [
      { system: 'postgresql', breaker: 'half_open', deletedRecords: 0, missedEntries: 4 } as const,
      { system: 'postgresql', breaker: 'half_open', deletedRecords: 0, missedEntries: 4 },
    ],
  ])('has what the store says of itself: %j', (store, expected) => {
    const meter = new IdempotencyMeter();
    meter.readFrom({ ...SOURCE, store });
    expect(meter.read().store).toEqual({ commands: [], ...expected });
  });

  it('keeps no state of the breaker, which the store may have closed silently', () => {
    const store = { ...SOURCE.store, breaker: 'open' as 'open' | 'closed' };
    const meter = new IdempotencyMeter();
    meter.readFrom({ ...SOURCE, store });
    meter.count({ type: 'breaker_opened', error: new Error('down') });
    expect(meter.read().store.breaker).toBe('open');
    store.breaker = 'closed';
    expect(meter.read().store.breaker).toBe('closed');
  });
});

describe("the store's commands", () => {
  it('have durations in seconds, those that failed by the code of their error', () => {
    const clock = new StandingClock();
    const meter = new IdempotencyMeter(undefined, clock);
    const sentAt = clock.now();
    clock.block(0.5);
    meter.commandReplied('begin', sentAt);
    clock.block(1.5);
    meter.commandReplied('begin', sentAt);
    meter.commandFailed('begin', sentAt, new StoreUnavailableError('down'));
    clock.block(9_998);
    meter.commandFailed('begin', sentAt, new StoreUnavailableError('down'));
    meter.commandReplied('watch', sentAt);
    const { commands } = meter.read().store;
    const bounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
    const counts = (...buckets: number[]) =>
      [...bounds, Infinity].map((_, bucket) => buckets.filter((each) => each === bucket).length);
    const errorType = 'idempotency_store_unavailable';
    const close = (sum: number) => expect.closeTo(sum, 9);
    expect(commands).toEqual([
      {
        command: 'begin',
        duration: { bounds, counts: counts(0, 2), count: 2, sum: close(0.0025) },
      },
      {
        command: 'begin',
        errorType,
        duration: { bounds, counts: counts(2, 13), count: 2, sum: close(10.002) },
      },
      { command: 'watch', duration: { bounds, counts: counts(13), count: 1, sum: close(10) } },
    ]);
  });

  it.each([
    [new StoreUnavailableError(), 'idempotency_store_unavailable'],
    [new StoreOutcomeUnknownError(), 'idempotency_store_outcome_unknown'],
    [new StoreReplyMismatchedError('x'), 'idempotency_store_reply_mismatched'],
    [new StoreConfigurationError(), 'idempotency_store_misconfigured'],
    [new TypeError('a secret'), '_OTHER'],
    [Object.assign(new Error('x'), { code: 'idempotency_a_secret' }), '_OTHER'],
    [Object.assign(new Error('x'), { code: '40001' }), '_OTHER'],
    ['a secret', '_OTHER'],
    [undefined, '_OTHER'],
  ])('that fail have no other error type than the codes of a store: %p', (error, errorType) => {
    const meter = new IdempotencyMeter();
    meter.commandFailed('complete', 0, error);
    expect(meter.read().store.commands).toMatchObject([{ command: 'complete', errorType }]);
  });
});

it('adds up the records of the reconciler', () => {
  const report = {
    completed: 1,
    released: 2,
    overtaken: 3,
    failed: 4,
    unknown: 5,
    coverage: 'partial',
  };
  const meter = metered({ type: 'reconciled', report }, { type: 'reconciled', report });
  expect(meter.read().reconciled).toEqual({
    ...{ completed: 2, released: 4, overtaken: 6, failed: 8, unknown: 10 },
  });
});
