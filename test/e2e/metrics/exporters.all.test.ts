import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rename, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Body, Controller, Get, Header, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  IdempotencyReconciler,
  IdempotencyService,
  IdempotencyStore,
  Idempotent,
  isIdempotencyError,
} from 'nestjs-idempotency';
import { fileBlobs } from 'nestjs-idempotency/blobs/file';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { redisStore } from 'nestjs-idempotency/redis';
import { metrics } from '@opentelemetry/api';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { Registry } from 'prom-client';
import { abandon } from '../../support/engine/abandon.js';
import { Public } from '../../support/http/callers.guard.js';
import { platforms } from '../../support/http/combinations.js';
import { InScenario, type Scenario, type Sending } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { METRICS, prometheusLabel } from '../../support/internals/observability.js';
import {
  type Exposition,
  expositionIn,
  labelsIn,
  seriesName,
} from '../../support/metrics/exposition.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';

const registry = new Registry();

@Controller()
class Payments {
  @Public()
  @Post('payments')
  @Idempotent({ operation: 'pay' })
  pay(@InScenario() scenario: Scenario, @Body() _: unknown) {
    return scenario.response();
  }

  @Post('orders')
  @Idempotent({ operation: 'order', duplicates: 'wait' })
  order(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('hints')
  @Idempotent({ operation: 'hint', storeErrors: { whenUnavailable: 'execute' } })
  hint(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Public()
  @Post('optional')
  @Idempotent({
    operation: 'optional',
    key: { required: false },
    caller: { anonymous: 'ignore' },
  })
  optional(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('disabled')
  @Idempotent({ operation: 'disabled', enabled: false })
  disabled(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('large')
  @Idempotent({ operation: 'large', outcome: { offload: { aboveBytes: 0 } } })
  large(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('failures')
  @Idempotent({ operation: 'fail' })
  fail() {
    throw new Error('planned');
  }

  @Public()
  @Get('metrics')
  @Header('content-type', registry.contentType)
  metrics() {
    return registry.metrics();
  }
}

/** Deeper than what is compared. */
const DEEP = JSON.parse('['.repeat(2_000) + ']'.repeat(2_000)) as unknown;

const INVALID: readonly Sending[] = [
  { key: null, json: {} },
  { key: ['one', 'two'], json: {} },
  { as: null, json: {} },
  { json: DEEP },
];

/** What docs/operations/metrics.md says of the exporter in the process, and nothing else. */
const DIFFERENCES = {
  /** It leaves units out. */
  unitless: /^(idempotency_\w+_duration|idempotency_outcome_io)(?!_seconds|_bytes)/,
  families: ['target_info'],
  labels: ['otel_scope_name', 'otel_scope_version'],
};

describe.each(platforms)('after the same traffic on %s, both exporters', (platform) => {
  const redis = useServer(() => RedisNode.start());
  let app: TestApp;
  let directory: string;
  let provider: MeterProvider;
  let otelUrl: string;
  let texts: { readonly prom: string; readonly otel: string };
  let prom: Exposition;
  let otel: Exposition;

  beforeAll(async () => {
    const port = await freePort();
    const exporter = new PrometheusExporter({ port, host: '127.0.0.1' });
    otelUrl = `http://127.0.0.1:${String(port)}/metrics`;
    provider = new MeterProvider({ readers: [exporter] });
    metrics.setGlobalMeterProvider(provider);
    directory = await mkdtemp(join(tmpdir(), 'idempotency-exporters-'));
    app = await startApp({
      platform,
      store: redisStore({ url: redis.url, onConnectionError: () => undefined }),
      controllers: [Payments],
      options: {
        telemetry: [prometheus({ registry }), openTelemetry()],
        breaker: { errorThresholdPercentage: 50, volumeThreshold: 10, probeInterval: 3_600_000 },
        blobs: fileBlobs({ directory }),
        reconcile: { interval: 86_400_000, after: 1_000 },
        limits: { maxAttemptsPerCaller: 1 },
        storeErrors: { commandTimeout: 2_000, saveTimeout: 2_000 },
      },
    });
    await makeTraffic();
    // The store is away: until nothing is sent in the background any more.
    await until(async () => {
      const scrape = async () => (await app.scenario().send('GET', '/metrics')).text;
      texts = { prom: await scrape(), otel: await (await fetch(otelUrl)).text() };
      return texts.prom === (await scrape());
    });
    prom = expositionIn(texts.prom);
    otel = expositionIn(texts.otel, {
      nameOf: (name) =>
        DIFFERENCES.families.includes(name)
          ? undefined
          : name.replace(
              DIFFERENCES.unitless,
              (start) => start + (start.endsWith('_duration') ? '_seconds' : '_bytes'),
            ),
      hasLabel: (label) => !DIFFERENCES.labels.includes(label),
    });
  }, 60_000);
  afterAll(async () => {
    await app.close();
    metrics.disable();
    await provider.shutdown();
    await rm(directory, { recursive: true, force: true });
  });

  async function makeTraffic(): Promise<void> {
    const statuses = async (...responses: Promise<{ readonly status: number }>[]) =>
      (await Promise.all(responses)).map(({ status }) => status);
    const once = app.scenario();
    const pay = (json: unknown) => once.post('/payments', { json });
    expect(await statuses(pay({ amount: 1 }))).toEqual([201]);
    expect(await statuses(pay({ amount: 1 }))).toEqual([201]);
    expect(await statuses(pay({ amount: 2 }))).toEqual([422]);
    for (const sending of INVALID) {
      expect(await statuses(app.scenario().post('/payments', sending))).toEqual([400]);
    }
    expect(await statuses(app.scenario().post('/failures'))).toEqual([500]);
    const unprotected = app.scenario();
    expect(await statuses(unprotected.post('/optional', { key: null }))).toEqual([201]);
    expect(await statuses(unprotected.post('/optional', { as: null }))).toEqual([201]);
    expect(await statuses(unprotected.post('/disabled'))).toEqual([201]);
    for (const [path, status] of [
      ['/payments', 409],
      ['/orders', 201],
    ] as const) {
      const twice = app.scenario();
      twice.gate.close();
      const first = twice.post(path);
      await twice.started.reached(1);
      const second = twice.post(path);
      if (status === 409) expect(await statuses(second)).toEqual([409]);
      else await until(async () => /waiter_active\{.*"order"\} 1$/m.test(await registry.metrics()));
      twice.gate.open();
      expect(await statuses(first, second)).toEqual([201, status]);
    }
    const large = app.scenario();
    expect(await statuses(large.post('/large'))).toEqual([201]);
    const [blob = ''] = (
      await readdir(directory, { recursive: true, withFileTypes: true })
    ).flatMap((each) => (each.isFile() ? [join(each.parentPath, each.name)] : []));
    await truncate(blob, 1);
    expect(await statuses(large.post('/large'))).toEqual([500]);
    await rename(directory, `${directory}-away`);
    expect(await statuses(large.post('/large'))).toEqual([503]);
    await rename(`${directory}-away`, directory);
    await makeCalls();
    await redis.kill();
    expect(await statuses(app.scenario().post('/hints'))).toEqual([201]);
    expect(await statuses(app.scenario().post('/payments', { json: {} }))).toEqual([503]);
  }

  /** Of attempts whose process has gone, with a lease that expires at once. */
  async function makeCalls(): Promise<void> {
    const store = app.nest.get(IdempotencyStore, { strict: false });
    const service = app.nest.get(IdempotencyService, { strict: false });
    const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    const busy = { operation: 'busy', scope: 'bob' };
    const gate = Gate.closed();
    const running = service.run({ ...busy, key: '1' }, () => gate.pass());
    await expect(service.run({ ...busy, key: '2' }, () => 2)).rejects.toMatchObject({
      code: 'idempotency_too_many_attempts',
    });
    gate.open();
    await running;
    const settled = { value: 'found' };
    const tries = { run: 'run', reject: 'reject', recover: () => settled } as const;
    for (const [operation, onTakeover] of Object.entries(tries)) {
      const { key } = await abandon(store, operation, undefined, 1);
      const call = { operation, key, scope: 'alice', lease: { onTakeover } };
      await until(() =>
        service
          .run(call, () => 'run')
          .then(
            () => true,
            (error: unknown) =>
              isIdempotencyError(error) && error.code === 'idempotency_outcome_unknown',
          ),
      );
    }
    reconciler.register('settle', { lease: { onTakeover: tries.recover } });
    await abandon(store, 'settle', undefined, 1);
    await until(async () => (await reconciler.reconcile()).completed === 1);
  }

  it('show each result of requests', () => {
    const occurred = (name: string) =>
      [...prom.series].filter(([each, value]) => each.startsWith(name) && value > 0);
    const all = METRICS.flatMap(({ attributes }) => attributes);
    const results = all.find(({ name }) => name === 'idempotency.result')!.values as string[];
    const shown = occurred('idempotency_requests_total').map(([name]) => labelsIn(name));
    // A process that shuts down is not scraped.
    expect(new Set(shown.map((labels) => labels.idempotency_result))).toEqual(
      new Set(results.filter((result) => result !== 'shutting_down')),
    );
    for (const name of [
      'takeovers',
      'wait_duration',
      'reconciled',
      'store_breaker',
      'store_command',
    ]) {
      expect([name, occurred(`idempotency_${name}`).length]).not.toEqual([name, 0]);
    }
  });

  it('have equal series and values', () => {
    expect(prom.series.size).toBeGreaterThan(300);
    expect(Object.fromEntries(otel.series)).toEqual(Object.fromEntries(prom.series));
  });

  it('have equal types and descriptions of what has a series', () => {
    for (const kind of ['types', 'help'] as const) {
      const shown = [...otel[kind]];
      expect(shown.length).toBeGreaterThanOrEqual(11);
      expect(shown.map(([name]) => [name, prom[kind].get(name)])).toEqual(shown);
    }
  });

  it('differ as documented: each difference is there', () => {
    const { unitless, families, labels } = DIFFERENCES;
    const plain = expositionIn(texts.otel);
    const changed = [...plain.types.keys()].filter((name) => unitless.test(name));
    // Four durations and the bytes of outcomes.
    expect(changed).toHaveLength(5);
    expect(families.filter((name) => plain.types.has(name))).toEqual(families);
    const all = [...plain.series.keys()].flatMap((name) => Object.keys(labelsIn(name)));
    expect(labels.filter((label) => all.includes(label))).toEqual(labels);
    expect(texts.otel).toMatch(/^# UNIT /m);
    expect(texts.prom).not.toMatch(/^# UNIT /m);
  });

  it('have only attributes and values of the catalogue', () => {
    const values = new Map(
      METRICS.flatMap(({ attributes }) => attributes).map((each) => [
        prometheusLabel(each.name),
        each.values,
      ]),
    );
    for (const name of prom.series.keys()) {
      for (const [label, value] of Object.entries(labelsIn(name))) {
        if (label === 'le') continue;
        const known = values.get(label);
        expect([label, known]).toEqual([label, expect.anything()]);
        if (typeof known !== 'string') expect(known).toContain(value);
      }
    }
  });
});

const SCRIPT = fileURLToPath(new URL('process.ts', import.meta.url));

interface Scraped {
  readonly statuses: readonly number[];
  readonly type: string;
  readonly text: string;
  /** The names in the registry after the application was closed. */
  readonly left: readonly string[];
}

it('@willsoto/nestjs-prometheus serves the metrics of one application after the other', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...typescriptNodeOptions, SCRIPT],
    { env: outsideEnvironment() },
  );
  const scraped = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Scraped);
  expect(scraped).toHaveLength(platforms.length);
  for (const { statuses, type, text, left } of scraped) {
    expect(statuses).toEqual([201, 201]);
    expect(type).toContain('text/plain; version=0.0.4');
    const { series } = expositionIn(text);
    const requests = (result: string) =>
      series.get(
        seriesName('idempotency_requests_total', {
          idempotency_operation_name: 'pay',
          idempotency_transport: 'http',
          idempotency_result: result,
        }),
      );
    expect([requests('executed'), requests('replayed')]).toEqual([1, 1]);
    expect(left).toContain('nodejs_version_info');
    expect(left.filter((name) => name.startsWith('idempotency_'))).toEqual([]);
  }
}, 60_000);
