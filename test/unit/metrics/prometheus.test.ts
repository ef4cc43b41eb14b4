import { describe, expect, it } from '@jest/globals';
import { IdempotencyEvents, IdempotencyMeter, IdempotencyOptionsError } from 'nestjs-idempotency';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { AggregatorRegistry, Counter, register, Registry } from 'prom-client';
import { METRICS, prometheusName } from '../../support/internals/observability.js';
import { count, executed, metered } from '../../support/metrics/counted.js';
import { expositionIn, labelsIn, seriesName } from '../../support/metrics/exposition.js';

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
    expect(ofPay).toHaveLength(25);
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
    expect(perOperation.length).toBeLessThanOrEqual(201 * 26);
  });
});

describe('a registry', () => {
  it('adds the workers of a cluster up', async () => {
    const workers = [metered(executed(5)), metered(executed(6), executed(7))].map((meter) =>
      start(meter),
    );
    const sent: unknown = JSON.parse(
      JSON.stringify(await Promise.all(workers.map(({ registry }) => registry.getMetricsAsJSON()))),
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
    const other = new Counter({ name: 'others_total', help: 'Of others.', registers: [registry] });
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
