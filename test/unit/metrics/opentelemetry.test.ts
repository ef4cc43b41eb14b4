import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { metrics } from '@opentelemetry/api';
import { IdempotencyEvents, IdempotencyMeter } from 'nestjs-idempotency';
import { openTelemetry, type OpenTelemetryOptions } from 'nestjs-idempotency/opentelemetry';
import { METRICS } from '../../support/internals/observability.js';
import { count, executed, metered } from '../../support/metrics/counted.js';
import { TestProvider, type OtelSeries } from '../../support/metrics/test-provider.js';

const stops: (() => void)[] = [];
beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
  metrics.disable();
  jest.useRealTimers();
});

function start(meter: IdempotencyMeter, options: OpenTelemetryOptions['metrics'] = {}): () => void {
  const telemetry = openTelemetry({ metrics: options });
  const stop = telemetry.start({ events: new IdempotencyEvents(meter), meter });
  stops.push(stop);
  return stop;
}

const command = (meter: IdempotencyMeter) => {
  meter.commandReplied('begin', performance.now());
};

function valueOf(
  series: readonly OtelSeries[],
  name: string,
  attributes: Readonly<Record<string, string>>,
): OtelSeries['value'] | undefined {
  const found = series.filter(
    (each) =>
      each.name === `idempotency.${name}` &&
      Object.entries(attributes).every(([key, value]) => each.attributes[key] === value),
  );
  expect(found.length).toBeLessThanOrEqual(1);
  return found[0]?.value;
}

const requests = (series: readonly OtelSeries[], result: string, operation = 'pay') =>
  valueOf(series, 'requests', {
    'idempotency.result': result,
    'idempotency.operation.name': operation,
  });

const attempts = (series: readonly OtelSeries[]) =>
  valueOf(series, 'attempt.duration', { 'idempotency.attempt.outcome': 'kept' });

describe('with an SDK from the start', () => {
  it('exports numbers and durations as the meter has them', async () => {
    const sdk = new TestProvider().register();
    const meter = new IdempotencyMeter();
    start(meter);
    count(meter, executed(5), executed(6), executed(400_000), { type: 'replayed' });
    count(meter, { type: 'waited', end: 'outcome', waitedMs: 30 });
    command(meter);
    const series = await sdk.read();
    const { attempts: counted } = meter.read().operations.get('pay')!;
    const { bounds, counts, sum } = counted.kept!;
    expect(attempts(series)).toEqual({ count: 3, sum, counts, boundaries: bounds });
    expect(valueOf(series, 'wait.duration', { 'idempotency.wait.end': 'outcome' })).toMatchObject({
      count: 1,
      sum: 0.03,
    });
    expect(
      valueOf(series, 'store.command.duration', {
        'idempotency.store.command': 'begin',
        'db.system.name': 'custom',
      }),
    ).toMatchObject({ count: 1 });
    expect([requests(series, 'executed'), requests(series, 'replayed')]).toEqual([3, 1]);
    expect(new Set(series.map(({ scope }) => scope))).toEqual(new Set(['nestjs-idempotency']));
    const units = new Map(METRICS.map(({ name, unit }) => [name, unit]));
    for (const { name, unit } of series) expect([name, unit]).toEqual([name, units.get(name)]);
  });

  it('has the durations of operations without a name of their own as _OTHER', async () => {
    const sdk = new TestProvider().register();
    const meter = new IdempotencyMeter();
    start(meter);
    for (let index = 0; index < 10_000; index += 1) {
      count(meter, { ...executed(), operation: `operation-${index}` });
    }
    const series = await sdk.read();
    const names = new Set(series.map(({ attributes }) => attributes['idempotency.operation.name']));
    names.delete(undefined);
    expect(names.size).toBe(201);
    expect(requests(series, 'executed', '_OTHER')).toBe(9_800);
    expect(
      valueOf(series, 'attempt.duration', { 'idempotency.operation.name': '_OTHER' }),
    ).toMatchObject({ count: 9_800 });
  });

  it('adds the operations up without their names, and records no commands, if the options say so', async () => {
    const sdk = new TestProvider().register();
    const meter = new IdempotencyMeter();
    start(meter, { operation: false, storeCommands: false });
    count(meter, executed(), { ...executed(), operation: 'send' }, { type: 'superseded' });
    command(meter);
    const series = await sdk.read();
    expect(valueOf(series, 'requests', { 'idempotency.result': 'executed' })).toBe(2);
    expect(valueOf(series, 'incidents', { 'idempotency.incident.type': 'superseded' })).toBe(1);
    expect(attempts(series)).toMatchObject({ count: 2 });
    const names = series.flatMap(({ name, attributes }) => [name, ...Object.keys(attributes)]);
    expect(names).not.toContain('idempotency.operation.name');
    expect(names).not.toContain('idempotency.store.command.duration');
  });
});

it('metrics: false exports none', async () => {
  const sdk = new TestProvider().register();
  const meter = metered();
  start(meter, false);
  count(meter, executed());
  jest.advanceTimersByTime(1_000);
  expect(await sdk.read()).toEqual([]);
});

describe('with an SDK that starts later', () => {
  it('exports all that was counted before, and durations from then on', async () => {
    const meter = new IdempotencyMeter();
    start(meter);
    count(meter, executed(), executed());
    const sdk = new TestProvider().register();
    count(meter, executed(7));
    const series = await sdk.read();
    expect(requests(series, 'executed')).toBe(3);
    expect(attempts(series)).toMatchObject({ count: 1, sum: 0.007 });
  });

  it('exports the zeros of an application without requests within a second', async () => {
    const meter = new IdempotencyMeter();
    meter.declare('pay', 'http');
    start(meter);
    const sdk = new TestProvider().register();
    expect(await sdk.read()).toEqual([]);
    jest.advanceTimersByTime(1_000);
    const series = await sdk.read();
    expect(requests(series, 'unprotected')).toBe(0);
    expect(series.length).toBeGreaterThanOrEqual(23);
  });

  it('goes on with the next SDK, and the one after it, without a loss of counts', async () => {
    const meter = metered();
    start(meter);
    for (const total of [1, 2, 3]) {
      const sdk = new TestProvider().register();
      count(meter, executed());
      const series = await sdk.read();
      expect(requests(series, 'executed')).toBe(total);
      expect(attempts(series)).toMatchObject({ count: 1 });
      await sdk.shutdown();
    }
    metrics.disable();
    count(meter, executed());
    expect(requests(await new TestProvider().register().read(), 'executed')).toBeUndefined();
  });

  it('gives the SDK before it no more', async () => {
    const meter = metered();
    start(meter);
    const before = new TestProvider().register();
    count(meter, executed());
    await before.read();
    new TestProvider().register();
    count(meter, executed());
    expect(attempts(await before.read())).toMatchObject({ count: 1 });
  });
});

describe('without an SDK', () => {
  it('counts, and has no timer once it has stopped', () => {
    const meter = metered();
    const timers = jest.getTimerCount();
    const stop = start(meter);
    expect(jest.getTimerCount()).toBe(timers + 1);
    count(meter, executed());
    command(meter);
    stop();
    expect(jest.getTimerCount()).toBe(timers);
    expect(meter.read().operations.get('pay')!.requests).toMatchObject({ http: { executed: 1 } });
  });
});

describe('applications of one process', () => {
  it('add up, and no count decreases when one of them stops', async () => {
    const sdk = new TestProvider().register();
    const [one, other] = [metered(), metered()];
    start(one);
    const stopOther = start(other);
    count(one, executed());
    count(other, executed(), executed());
    expect(requests(await sdk.read(), 'executed')).toBe(3);
    stopOther();
    count(other, executed());
    count(one, executed());
    const series = await sdk.read();
    expect(requests(series, 'executed')).toBe(4);
    expect(attempts(series)).toMatchObject({ count: 4 });
  });

  it('keep their counts after all have stopped, for the last export and for the next application', async () => {
    const sdk = new TestProvider().register();
    const meter = metered();
    const stop = start(meter);
    count(meter, executed());
    stop();
    expect(requests(await sdk.read(), 'executed')).toBe(1);
    const next = metered();
    start(next);
    count(next, executed());
    const series = await sdk.read();
    expect(requests(series, 'executed')).toBe(2);
    expect(attempts(series)).toMatchObject({ count: 2 });
  });
});

it('an SDK that throws reaches no request', () => {
  const meter = metered();
  const throwError = () => {
    throw new Error('no');
  };
  metrics.setGlobalMeterProvider({ getMeter: throwError });
  start(meter);
  expect(() => count(meter, executed())).not.toThrow();
  metrics.disable();
  const meterOf = metrics.getMeter('real');
  metrics.setGlobalMeterProvider({
    getMeter: () =>
      Object.create(meterOf, { createHistogram: { value: () => ({ record: throwError }) } }),
  });
  expect(() => count(meter, executed())).not.toThrow();
});
