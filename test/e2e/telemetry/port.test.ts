import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Controller, Post } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  type IdempotencyEvent,
  IdempotencyMeter,
  type IdempotencyModuleOptions,
  IdempotencyOptionsError,
  IdempotencyService,
  Idempotent,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import {
  openTelemetry,
  type Surrounding,
  type Telemetry,
  type TelemetrySource,
} from 'nestjs-idempotency/opentelemetry';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { redisStore } from 'nestjs-idempotency/redis';
import { Counter, Registry } from 'prom-client';
import { AlwaysOffSampler } from '@opentelemetry/sdk-trace-node';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { FaultyStore, misconfigured } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { platforms } from '../../support/http/combinations.js';
import { InScenario, type Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { TestSdk, traceRequests } from '../../support/telemetry/test-sdk.js';
import { samplesOf } from '../../support/docs/documented-typescript.js';
import { Child } from '../../support/processes/child.js';
import { projectRoot } from '../../support/project-root.js';
import { until } from '../../support/waiting/until.js';
import { type OtlpSpan, startCollector } from './support/collector.js';

let app: CallingApp | undefined;
afterEach(async () => {
  await app?.nest.close();
  app = undefined;
});

let keys = 0;

async function start(telemetry: IdempotencyModuleOptions['telemetry'], more: object = {}) {
  app = await callingApp({}, { ...(telemetry !== undefined && { telemetry }), ...more });
  const { nest, events, log } = app;
  const service = nest.get(IdempotencyService, { strict: false });
  return {
    nest,
    events,
    log,
    pay: (operation: () => unknown = () => 'paid', key = `key-${(keys += 1)}`) =>
      service.run({ operation: 'pay', key, scope: 'alice' }, operation),
  };
}

/** A telemetry that does nothing but what it is given. */
const quiet = (more: Partial<Telemetry> = {}): Telemetry => ({
  start: () => () => undefined,
  ...more,
});

describe('a telemetry', () => {
  it('starts with the events and the meter of its application, and stops after the last attempt has ended', async () => {
    const seen: string[] = [];
    const sources: TelemetrySource[] = [];
    const telemetry = quiet({
      start: (source) => {
        sources.push(source);
        const leave = source.events.subscribe(({ type }) => seen.push(type));
        return () => {
          leave();
          seen.push('stopped');
        };
      },
    });
    const { nest, pay } = await start(telemetry);
    expect(sources).toHaveLength(1);
    expect(sources[0]!.meter).toBe(nest.get(IdempotencyMeter, { strict: false }));
    const gate = Gate.closed();
    const running = pay(() => gate.pass());
    await new Promise(setImmediate);
    const closed = nest.close();
    await new Promise(setImmediate);
    expect(seen).toEqual(['acquired']);
    gate.open();
    await Promise.all([running, closed]);
    expect(seen).toEqual(['acquired', 'completed', 'ended', 'stopped']);
    app = undefined;
  });

  it('stops if the start fails', async () => {
    const store = new FaultyStore(memoryStore());
    store.open = () => misconfigured(() => Promise.reject(new Error('not called')));
    let stopped = 0;
    const telemetry = quiet({ start: () => () => void (stopped += 1) });
    await expect(start(telemetry, { store })).rejects.toThrow('planned: misconfigured');
    expect(stopped).toBe(1);
  });

  it('that is given twice is asked once', async () => {
    const seen: string[] = [];
    const telemetry = quiet({
      start: () => {
        seen.push('start');
        return () => seen.push('stop');
      },
      around: () => void seen.push('around'),
    });
    const { nest, pay } = await start([telemetry, telemetry]);
    await pay();
    await nest.close();
    app = undefined;
    expect(seen).toEqual(['start', 'around', 'stop']);
  });

  it('may be shared by several applications, each with its own source', async () => {
    const sources = new Set<unknown>();
    const telemetry = quiet({
      start: ({ events }) => {
        sources.add(events);
        return () => sources.delete(events);
      },
    });
    const other = await callingApp({}, { telemetry });
    await start(telemetry);
    expect(sources.size).toBe(2);
    await other.nest.close();
    expect(sources.size).toBe(1);
  });

  it.each<[string, unknown]>([
    ['a function that was not called', () => quiet()],
    ['a list with something else', [quiet(), {}]],
    ['a number', 1],
    ['null', null],
    ['a telemetry whose traceOf is no function', quiet({ traceOf: 'word' as never })],
    ['a telemetry whose around is no function', quiet({ around: {} as never })],
  ])('stops the start if it is %s', async (_, telemetry) => {
    const starting = start(telemetry as Telemetry);
    await expect(starting).rejects.toThrow(IdempotencyOptionsError);
    await expect(starting).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringContaining(
        '"telemetry" must be a telemetry, such as openTelemetry(), or an array of them',
      ),
    });
  });
});

it('stops the start, and the other telemetries, if its registry has another metric of the same name', async () => {
  const registry = new Registry();
  const name = 'idempotency_reconciled_records_total';
  const counter = new Counter({ name, help: 'Of others.', registers: [registry] });
  let running = 0;
  const other = quiet({
    start: () => {
      running += 1;
      return () => (running -= 1);
    },
  });
  const telemetry = [other, prometheus({ registry })];
  await expect(callingApp({}, { telemetry })).rejects.toThrow(IdempotencyOptionsError);
  expect(running).toBe(0);
  expect(registry.getMetricsAsArray()).toEqual([counter]);
});

/** The trace that a replay has found. */
const tracesIn = (events: readonly IdempotencyEvent[]) =>
  events.flatMap((event) => (event.type === 'replayed' ? [event.trace] : []));

describe('traceOf', () => {
  const execute = async (telemetry: IdempotencyModuleOptions['telemetry']) => {
    const started = await start(telemetry);
    const key = `key-${(keys += 1)}`;
    await started.pay(undefined, key);
    await started.pay(undefined, key);
    return started;
  };

  it('of the first telemetry that has one is kept with the record: a replay has the trace of the execution', async () => {
    const asked: unknown[] = [];
    const telemetries = [undefined, 'one', 'other'].map((word) =>
      quiet({
        traceOf: () => {
          asked.push(word);
          return word && `${word}-${String(asked.length)}`;
        },
      }),
    );
    const { events } = await execute(telemetries);
    expect(tracesIn(events)).toEqual(['one-2']);
    expect(asked).toEqual([undefined, 'one', undefined, 'one']);
  });

  it.each<[string, unknown]>([
    ['with a space', 'a b'],
    ['of 65 characters', 'x'.repeat(65)],
    ['that is empty', ''],
    ['beyond ASCII', 'tráce'],
    ['that is a number', 7],
    ['that is null', null],
  ])('%s is not kept, and logged', async (_, word) => {
    const { events, log } = await execute(quiet({ traceOf: () => word as string }));
    expect(tracesIn(events)).toEqual([undefined]);
    expect(log.own).toContain('error: traceOf of a telemetry failed.');
  });

  it('of 64 characters is kept', async () => {
    const word = '~'.repeat(64);
    const { events, log } = await execute(quiet({ traceOf: () => word }));
    expect(tracesIn(events)).toEqual([word]);
    expect(log.own).toEqual([]);
  });
});

describe('around', () => {
  it('surrounds each request once, the later telemetry outside, and learns how it has ended', async () => {
    const seen: string[] = [];
    const surrounding = (name: string) =>
      quiet({
        // Nothing else of the request.
        around: (request) => ({
          run: (handle) => {
            seen.push(`${name} before ${JSON.stringify(request)}`);
            handle();
            seen.push(`${name} after the start`);
          },
          ended: (error) => seen.push(`${name} ended with ${String(error)}`),
        }),
      });
    const { pay } = await start([surrounding('inner'), quiet(), surrounding('outer')]);
    await pay(() => seen.push('operation'));
    await expect(pay(() => Promise.reject(new RangeError('planned')))).rejects.toThrow('planned');
    const request = '{"operation":"pay","transport":"call"}';
    const around = [
      `outer before ${request}`,
      `inner before ${request}`,
      'inner after the start',
      'outer after the start',
    ];
    const ended = (error: string) => [`inner ended with ${error}`, `outer ended with ${error}`];
    expect(seen).toEqual([
      ...[...around, 'operation', ...ended('undefined')],
      ...[...around, ...ended('RangeError: planned')],
    ]);
  });
});

const hostile = () => {
  throw new Error('hostile');
};

describe('a hostile telemetry', () => {
  const surroundings: Record<string, Partial<Surrounding> | null | (() => never)> = {
    'around throws': hostile,
    'its surrounding is null': null,
    'its surrounding is empty': {},
    'run throws before': { run: hostile, ended: () => undefined },
    'run throws after': {
      run: (handle) => {
        handle();
        hostile();
      },
      ended: hostile,
    },
    'run does nothing': { run: () => undefined, ended: () => undefined },
    'run starts the request twice': {
      run: (handle) => {
        handle();
        handle();
      },
      ended: () => undefined,
    },
    'run starts the request later': {
      run: (handle) => void setImmediate(handle),
      ended: () => undefined,
    },
  };

  it.each(Object.entries(surroundings))(
    'where %s: each operation runs once, and its caller gets its result',
    async (_, surrounding) => {
      const around = typeof surrounding === 'function' ? surrounding : () => surrounding;
      const { pay } = await start(quiet({ around: around as Telemetry['around'] & object }));
      let runs = 0;
      expect(await pay(() => (runs += 1))).toBe(1);
      await new Promise(setImmediate);
      expect(runs).toBe(1);
      await expect(pay(() => Promise.reject(new RangeError('own')))).rejects.toThrow('own');
    },
  );

  it('whose methods are async and reject is logged, and does not end the process', async () => {
    const rejects = (() => Promise.reject(new Error('hostile'))) as () => never;
    const { nest, log, pay } = await start([
      quiet({ start: rejects }),
      quiet({ start: () => rejects }),
      quiet({ traceOf: rejects, around: rejects }),
      quiet({ around: () => ({ run: rejects, ended: rejects }) }),
    ]);
    expect(await pay()).toBe('paid');
    await nest.close();
    app = undefined;
    await new Promise(setImmediate);
    const methods = new Set(log.own.map((line) => line.replace(/ of a telemetry failed\.$/, '')));
    expect(methods).toEqual(
      new Set(['start', 'stop', 'traceOf', 'around'].map((method) => `error: ${method}`)),
    );
  });

  it('that throws everywhere is logged, and does not affect the others', async () => {
    const seen: string[] = [];
    const thrower: Telemetry = { start: hostile, traceOf: hostile, around: hostile };
    const stopper: Telemetry = { start: () => hostile };
    const healthy = quiet({
      start: ({ events }) => events.subscribe(({ type }) => seen.push(type)),
      traceOf: () => 'kept',
    });
    const { nest, log, pay, events } = await start([thrower, stopper, healthy]);
    const key = `key-${(keys += 1)}`;
    expect(await pay(undefined, key)).toBe('paid');
    expect(await pay(undefined, key)).toBe('paid');
    expect(seen).toEqual(['acquired', 'completed', 'ended', 'replayed']);
    expect(tracesIn(events)).toEqual(['kept']);
    await nest.close();
    app = undefined;
    expect(log.own).toEqual([
      'error: start of a telemetry failed.',
      ...[1, 2].flatMap(() => [
        'error: around of a telemetry failed.',
        'error: traceOf of a telemetry failed.',
      ]),
      'error: stop of a telemetry failed.',
    ]);
  });
});

/** A space, and 34 characters. */
const NOTE_BYTES = 35;

@Controller()
class Payments {
  @Post('payments')
  @Idempotent()
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const redis = useRedis();
const client = useRedisClient(redis);

describe('with traces', () => {
  let sdk: TestSdk;
  beforeEach(() => {
    sdk = TestSdk.start();
  });
  afterEach(() => sdk.stop());

  const startWith = (telemetry: IdempotencyModuleOptions['telemetry']) =>
    startApp({
      platform: 'express',
      store: redisStore({ url: redis.url, push: false }),
      controllers: [Payments],
      options: { ...(telemetry && { telemetry }) },
      configure: traceRequests,
    });

  it('a record has the trace of a sampled execution, and without links it is not a byte larger', async () => {
    /** The length of a finished record. */
    const bytesOf = async (app: TestApp) => {
      await client.flushdb();
      await app.scenario().post('/payments');
      const [name = ''] = await client.keys('*');
      return client.strlen(name);
    };
    const kinds = [
      undefined,
      openTelemetry(),
      openTelemetry({ links: false }),
      openTelemetry({ spans: false }),
    ];
    const apps = await Promise.all(kinds.map(startWith));
    const [plain, traced, unlinked, spanless] = apps as [TestApp, TestApp, TestApp, TestApp];
    try {
      const without = await bytesOf(plain);
      expect(await bytesOf(traced)).toBe(without + NOTE_BYTES);
      expect(await bytesOf(unlinked)).toBe(without);
      expect(await bytesOf(spanless)).toBe(without);
      await sdk.stop();
      expect(await bytesOf(traced)).toBe(without);
      sdk = TestSdk.start(new AlwaysOffSampler());
      expect(await bytesOf(traced)).toBe(without);
    } finally {
      await Promise.all(apps.map((app) => app.close()));
    }
  });
});

const [, instrumentation = ''] = samplesOf('docs/operations/telemetry.md');

const resultOf = ({ attributes }: OtlpSpan) =>
  attributes.find(({ key }) => key === 'idempotency.result')?.value.stringValue;

it('the instrumentation.ts of the docs exports the spans of requests on Express and on Fastify', async () => {
  expect(instrumentation).toContain('// instrumentation.ts');
  const folder = await mkdtemp(join(projectRoot, 'test/.tmp-telemetry-'));
  const collector = await startCollector();
  const file = join(folder, 'instrumentation.ts');
  await writeFile(file, instrumentation);
  const app = await Child.start(new URL('support/traced-app.ts', import.meta.url), {
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_LOGS_EXPORTER: 'none',
      OTEL_BSP_SCHEDULE_DELAY: '10',
    },
    nodeOptions: ['--import', pathToFileURL(file).href],
  });
  try {
    for (const platform of platforms) {
      const port = await app.call<number>('portOf', platform);
      const post = async () => {
        const headers = { 'idempotency-key': 'one-payment' };
        const url = `http://127.0.0.1:${String(port)}/payments`;
        return (await fetch(url, { method: 'POST', headers })).status;
      };
      const before = collector.spans.length;
      expect([await post(), await post()]).toEqual([201, 201]);
      const requests = () =>
        collector.spans.slice(before).filter(({ name }) => name.startsWith('POST'));
      await until(() => requests().length === 2);
      const [first, replay] = requests() as [OtlpSpan, OtlpSpan];
      expect([first, replay].map(resultOf)).toEqual(['executed', 'replayed']);
      expect(replay.links).toMatchObject([{ traceId: first.traceId, spanId: first.spanId }]);
    }
  } finally {
    await app.stop();
    await collector.close();
    await rm(folder, { recursive: true });
  }
});
