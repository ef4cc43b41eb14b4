import { describe, expect, it } from '@jest/globals';
import { IdempotencyMeter, StoreUnavailableError } from 'nestjs-idempotency';

const MAX_NAMES = 200;

const subject = {
  operation: 'pay',
  transport: 'http' as const,
  recordKey: 'digest' as never,
  attempt: 1,
  fencingToken: 7,
};

function metered(...events: readonly object[]): IdempotencyMeter {
  const meter = new IdempotencyMeter();
  for (const event of events) meter.count({ ...subject, ...event } as never);
  return meter;
}

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
    expect(Object.keys(incidents)).toHaveLength(14);
    expect(others).toEqual({
      requests: { http: { unprotected: 0 } },
      ...{ takeovers: 0, attempts: {}, waits: {}, running: 0, waiting: 0 },
    });
    expect(operations.get('send')!.requests).toEqual({ call: { unprotected: 0 } });
    expect(store).toEqual({});
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
  const meter = new IdempotencyMeter();
  const names = Array.from({ length: 10_000 }, (_, index) => `operation-${index}`);
  for (const operation of names) {
    meter.replayed({ ...subject, operation });
  }
  meter.readFrom({
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

  it('has the state of its breaker, from the start', () => {
    const meter = new IdempotencyMeter();
    meter.hasBreaker();
    const states = [meter.read().store.breaker];
    for (const type of ['breaker_opened', 'breaker_half_open', 'breaker_closed'] as const) {
      meter.count({ type, error: new Error('down') });
      states.push(meter.read().store.breaker);
    }
    expect(states).toEqual(['closed', 'open', 'half_open', 'closed']);
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
