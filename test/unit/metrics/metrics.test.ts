import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { metrics } from '@opentelemetry/api';
import { IdempotencyEvents, IdempotencyMeter, IdempotencyOptionsError } from 'nestjs-idempotency';
import { openTelemetry, type OpenTelemetryOptions } from 'nestjs-idempotency/opentelemetry';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { AggregatorRegistry, Counter, register, Registry } from 'prom-client';
import { METRICS, prometheusName } from '../../support/internals/observability.js';
import { count, executed, metered } from '../../support/metrics/counted.js';
import { expositionIn, labelsIn, seriesName } from '../../support/metrics/exposition.js';
import { type OtelSeries, TestProvider } from '../../support/metrics/test-provider.js';

it('the names are those that dashboards and rules of users refer to', () => {
  expect(METRICS.map(({ name, kind, unit }) => [name, kind, unit])).toEqual([
    ['idempotency.requests', 'counter', '{request}'],
    ['idempotency.incidents', 'counter', '{incident}'],
    ['idempotency.takeovers', 'counter', '{takeover}'],
    ['idempotency.lease.losses', 'counter', '{loss}'],
    ['idempotency.outcome.unreadable', 'counter', '{outcome}'],
    ['idempotency.attempt.duration', 'histogram', 's'],
    ['idempotency.wait.duration', 'histogram', 's'],
    ['idempotency.attempt.active', 'updowncounter', '{attempt}'],
    ['idempotency.waiter.active', 'updowncounter', '{waiter}'],
    ['idempotency.store.command.duration', 'histogram', 's'],
    ['idempotency.store.breaker.status', 'updowncounter', '1'],
    ['idempotency.store.deleted.records', 'counter', '{record}'],
    ['idempotency.journal.missed', 'counter', '{entry}'],
    ['idempotency.outcome.io', 'counter', 'By'],
    ['idempotency.blob.duration', 'histogram', 's'],
    ['idempotency.blob.wait.duration', 'histogram', 's'],
    ['idempotency.reconciled.records', 'counter', '{record}'],
  ]);
  expect(METRICS.map(prometheusName)).toEqual([
    'idempotency_requests_total',
    'idempotency_incidents_total',
    'idempotency_takeovers_total',
    'idempotency_lease_losses_total',
    'idempotency_outcome_unreadable_total',
    'idempotency_attempt_duration_seconds',
    'idempotency_wait_duration_seconds',
    'idempotency_attempt_active',
    'idempotency_waiter_active',
    'idempotency_store_command_duration_seconds',
    'idempotency_store_breaker_status',
    'idempotency_store_deleted_records_total',
    'idempotency_journal_missed_total',
    'idempotency_outcome_io_bytes_total',
    'idempotency_blob_duration_seconds',
    'idempotency_blob_wait_duration_seconds',
    'idempotency_reconciled_records_total',
  ]);
});

describe('opentelemetry', () => {
  const stops: (() => void)[] = [];
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    for (const stop of stops.splice(0)) stop();
    metrics.disable();
    jest.useRealTimers();
  });

  function start(
    meter: IdempotencyMeter,
    options: OpenTelemetryOptions['metrics'] = {},
  ): () => void {
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
      expect(valueOf(series, 'wait.duration', { 'idempotency.wait.end': 'outcome' })).toMatchObject(
        {
          count: 1,
          sum: 0.03,
        },
      );
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
      const names = new Set(
        series.map(({ attributes }) => attributes['idempotency.operation.name']),
      );
      names.delete(undefined);
      expect(names.size).toBe(201);
      expect(requests(series, 'executed', '_OTHER')).toBe(9_800);
      expect(
        valueOf(series, 'attempt.duration', { 'idempotency.operation.name': '_OTHER' }),
      ).toMatchObject({ count: 9_800 });
    });

    it('has what a blob store did, with its bytes and seconds, and why outcomes were unreadable', async () => {
      const sdk = new TestProvider().register();
      const meter = new IdempotencyMeter();
      start(meter);
      meter.recordMoved('put', 300);
      meter.blobMoved('put', 'ok', 40_000_000, 2_000);
      meter.blobMoved('get', 'missing', 0, 3);
      meter.uploadWaited('begun', 1_500);
      count(meter, { type: 'outcome_unreadable', reason: 'blob_missing' });
      const series = await sdk.read();
      const bytes = (place: string, direction: string) =>
        valueOf(series, 'outcome.io', {
          'idempotency.outcome.place': place,
          'idempotency.outcome.direction': direction,
        });
      expect([bytes('record', 'put'), bytes('blob', 'put')]).toEqual([300, 40_000_000]);
      expect(
        valueOf(series, 'blob.duration', {
          'idempotency.outcome.direction': 'put',
          'idempotency.blob.result': 'ok',
        }),
      ).toMatchObject({ count: 1, sum: 2 });
      expect(
        valueOf(series, 'blob.duration', { 'idempotency.blob.result': 'missing' }),
      ).toMatchObject({ count: 1, sum: 0.003 });
      expect(
        valueOf(series, 'blob.wait.duration', { 'idempotency.blob.wait.end': 'begun' }),
      ).toMatchObject({ count: 1, sum: 1.5 });
      expect(
        valueOf(series, 'outcome.unreadable', {
          'idempotency.operation.name': 'pay',
          'idempotency.outcome.unreadable.reason': 'blob_missing',
        }),
      ).toBe(1);
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
});

describe('prometheus', () => {
  const names = METRICS.map(prometheusName);

  function start(meter: IdempotencyMeter, registry = new Registry()) {
    const stop = prometheus({ registry }).start({ events: new IdempotencyEvents(meter), meter });
    return { registry, stop, read: async () => expositionIn(await registry.metrics()) };
  }

  const requests = (result: string, operation = 'pay', transport = 'http') =>
    seriesName('idempotency_requests_total', {
      idempotency_operation_name: operation,
      idempotency_transport: transport,
      idempotency_result: result,
    });

  const attempts = (suffix: string, others: object = {}) =>
    seriesName(`idempotency_attempt_duration_seconds_${suffix}`, {
      idempotency_operation_name: 'pay',
      idempotency_attempt_outcome: 'kept',
      ...others,
    });

  describe('a scrape', () => {
    it('has 0 for all that shows a problem, for each known operation, and nothing else of it', async () => {
      const meter = new IdempotencyMeter();
      meter.declare('pay', 'http');
      const { read } = start(meter);
      const { series, types } = await read();
      const ofPay = [...series].filter(([name]) => name.includes('"pay"'));
      expect(ofPay).toHaveLength(28);
      expect(new Set(ofPay.map(([, value]) => value))).toEqual(new Set([0]));
      expect(ofPay.map(([name]) => name)).toEqual(
        expect.arrayContaining([
          requests('unprotected'),
          'idempotency_incidents_total{idempotency_incident_type="save_failed",idempotency_operation_name="pay"}',
          'idempotency_takeovers_total{idempotency_operation_name="pay"}',
          'idempotency_lease_losses_total{idempotency_lease_loss_reason="gone",idempotency_operation_name="pay"}',
          'idempotency_attempt_active{idempotency_operation_name="pay"}',
        ]),
      );
      expect([...types.keys()]).toEqual(names);
    });

    it('reads what the meter has counted by then', async () => {
      const meter = metered(executed());
      const { read } = start(meter);
      expect((await read()).series.get(requests('executed'))).toBe(1);
      count(meter, executed(), { type: 'replayed' });
      const { series } = await read();
      expect(series.get(requests('executed'))).toBe(2);
      expect(series.get(requests('replayed'))).toBe(1);
    });

    it('has cumulative buckets whose bounds are inclusive, with sum and count', async () => {
      const { read } = start(metered(executed(5), executed(6), executed(400_000)));
      const { series, types } = await read();
      const bucket = (le: string) => series.get(attempts('bucket', { le }));
      expect(['0.005', '0.01', '300', '+Inf'].map(bucket)).toEqual([1, 2, 2, 3]);
      expect(series.get(attempts('count'))).toBe(3);
      expect(series.get(attempts('sum'))).toBeCloseTo(400.011, 6);
      expect(types.get('idempotency_attempt_duration_seconds')).toBe('histogram');
      const bounds = [...series.keys()].filter((name) => name.includes('_bucket{'));
      expect(bounds).toHaveLength(15);
    });

    it('escapes what an operation is named', async () => {
      const { read } = start(metered({ ...executed(), operation: 'a "b"\n\\c' }));
      const [name = ''] = [...(await read()).series.keys()].filter((each) =>
        each.includes('executed'),
      );
      expect(labelsIn(name).idempotency_operation_name).toBe(String.raw`a \"b\"\n\\c`);
    });

    it('has at most 200 operations, and the others together', async () => {
      const meter = new IdempotencyMeter();
      for (let index = 0; index < 10_000; index += 1) {
        meter.replayed({ operation: `operation-${index}`, transport: 'call' });
      }
      const { series } = await start(meter).read();
      const replayed = [...series].filter(([name]) => name.includes('"replayed"'));
      expect(replayed).toHaveLength(201);
      expect(series.get(requests('replayed', '_OTHER', 'call'))).toBe(9_800);
      const perOperation = [...series.keys()].filter((name) => name.includes('operation_name'));
      expect(perOperation.length).toBeLessThanOrEqual(201 * 29);
    });
  });

  describe('a registry', () => {
    it('adds the workers of a cluster up', async () => {
      const workers = [metered(executed(5)), metered(executed(6), executed(7))].map((meter) =>
        start(meter),
      );
      const sent: unknown = JSON.parse(
        JSON.stringify(
          await Promise.all(workers.map(({ registry }) => registry.getMetricsAsJSON())),
        ),
      );
      const primary = AggregatorRegistry.aggregate(sent as object[]);
      const { series, types } = expositionIn(await primary.metrics());
      expect(series.get(requests('executed'))).toBe(3);
      expect(series.get(attempts('bucket', { le: '0.005' }))).toBe(1);
      expect(series.get(attempts('count'))).toBe(3);
      expect([...types.keys()]).toEqual(names);
    });

    it('writes OpenMetrics, also after a merge, and again after the next start', async () => {
      const registry = new Registry();
      registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
      const meter = metered(executed());
      for (const name of ['first', 'second']) {
        const { stop } = start(meter, registry);
        for (const each of [registry, Registry.merge([registry])]) {
          each.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
          const text = await each.metrics();
          expect(text).toMatch(/^# TYPE idempotency_requests counter$/m);
          expect(text.trimEnd()).toMatch(/# EOF$/);
          expect([name, expositionIn(text).series.get(requests('executed'))]).toEqual([name, 1]);
        }
        stop();
        expect(registry.getMetricsAsArray()).toEqual([]);
      }
    });

    it('has the names of the other format again when the content type changes back', async () => {
      const { registry, read } = start(metered(executed()));
      registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
      await registry.metrics();
      registry.setContentType(Registry.PROMETHEUS_CONTENT_TYPE);
      expect((await read()).series.get(requests('executed'))).toBe(1);
    });

    it('has the labels that it adds to all metrics', async () => {
      const { registry, read } = start(metered(executed()));
      registry.setDefaultLabels({ app: 'shop' });
      const all = [...(await read()).series.keys()].map((name) => labelsIn(name).app);
      expect(new Set(all)).toEqual(new Set(['shop']));
    });

    it('does not reset the counts', async () => {
      const { registry, read } = start(metered(executed()));
      registry.resetMetrics();
      expect((await read()).series.get(requests('executed'))).toBe(1);
    });

    it('keeps the metrics of others', async () => {
      const registry = new Registry();
      const other = new Counter({
        name: 'others_total',
        help: 'Of others.',
        registers: [registry],
      });
      start(metered(), registry).stop();
      expect(registry.getMetricsAsArray()).toEqual([other]);
    });

    it('is that of prom-client, by default', async () => {
      const meter = metered(executed());
      const stop = prometheus().start({ events: new IdempotencyEvents(meter), meter });
      expect(expositionIn(await register.metrics()).series.get(requests('executed'))).toBe(1);
      stop();
      expect(register.getMetricsAsArray()).toEqual([]);
    });
  });

  describe('applications that share a registry', () => {
    it('add up, and no count decreases when one of them stops', async () => {
      const registry = new Registry();
      const one = metered(executed(5), { ...executed(), operation: 'send' });
      const other = metered(executed(6), executed(7));
      const first = start(one, registry);
      const second = start(other, registry);
      const before = await first.read();
      expect(before.series.get(requests('executed'))).toBe(3);
      expect(before.series.get(requests('executed', 'send'))).toBe(1);
      second.stop();
      const after = await first.read();
      const counts = ({ series }: typeof before) =>
        [...series].filter(([name]) => !name.includes('_active{'));
      expect(counts(after)).toEqual(expect.arrayContaining(counts(before)));
      expect(after.series.get(attempts('sum'))).toBeCloseTo(0.018, 6);
      count(one, executed());
      second.stop();
      const third = start(metered(executed()), registry);
      expect((await third.read()).series.get(requests('executed'))).toBe(5);
      third.stop();
      first.stop();
      expect(registry.getMetricsAsArray()).toEqual([]);
      const restarted = start(metered(executed()), registry);
      expect((await restarted.read()).series.get(requests('executed'))).toBe(1);
    });

    it('count once if one application has the registry twice', async () => {
      const registry = new Registry();
      const meter = metered(executed());
      const { stop, read } = start(meter, registry);
      const again = start(meter, registry);
      expect((await read()).series.get(requests('executed'))).toBe(1);
      stop();
      again.stop();
      expect(registry.getMetricsAsArray()).toEqual([]);
    });

    it('register again what registry.clear() has removed', async () => {
      const { registry, stop } = start(metered(executed()));
      registry.clear();
      const { read } = start(metered(executed()), registry);
      expect((await read()).series.get(requests('executed'))).toBe(2);
      stop();
      expect((await read()).series.get(requests('executed'))).toBe(2);
    });
  });

  describe('prometheus()', () => {
    it('rejects a registry that has another metric of the same name, and adds nothing to it', () => {
      const registry = new Registry();
      const name = 'idempotency_reconciled_records_total';
      const other = new Counter({ name, help: 'Of others.', registers: [registry] });
      const starting = () => start(metered(), registry);
      expect(starting).toThrow(IdempotencyOptionsError);
      expect(starting).toThrow(`The registry has another metric named "${name}".`);
      expect(registry.getMetricsAsArray()).toEqual([other]);
    });

    it('rejects invalid options', () => {
      const invalid = () => prometheus({ registry: {} as never });
      expect(invalid).toThrow(IdempotencyOptionsError);
      expect(invalid).toThrow(
        'prometheus(): The option "registry" must be a Registry of prom-client',
      );
      expect(() => prometheus({ register } as never)).toThrow(IdempotencyOptionsError);
    });
  });
});
