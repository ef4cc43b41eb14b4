import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Post, ServiceUnavailableException } from '@nestjs/common';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import {
  AlwaysOffSampler,
  SamplingDecision,
  type ReadableSpan,
  type Sampler,
} from '@opentelemetry/sdk-trace-node';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry, type OpenTelemetryOptions } from 'nestjs-idempotency/opentelemetry';
import { recordKey } from 'nestjs-idempotency/store';
import { platforms } from '../../support/http/combinations.js';
import { InScenario, type Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import {
  idOf,
  linksOf,
  TestSdk,
  traceRequests,
  written,
} from '../../support/telemetry/test-sdk.js';

/** Spans for processors in the process, which are not exported. */
const RECORDED_ONLY: Sampler = {
  shouldSample: () => ({ decision: SamplingDecision.RECORD }),
};

const LEASE_MS = 60_000;
const OPERATION = 'payments.create';

@Controller()
class Payments {
  @Post('payments')
  @Idempotent({ operation: OPERATION, lease: { durationMs: LEASE_MS } })
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('failing')
  @Idempotent({ operation: 'payments.fail' })
  async fail(@InScenario() scenario: Scenario) {
    await scenario.run();
    throw new ServiceUnavailableException('planned');
  }
}

let sdk: TestSdk;
beforeEach(() => {
  sdk = TestSdk.start();
});
afterEach(() => sdk.stop());

let now = Date.UTC(2026, 0, 1);
const apps: TestApp[] = [];
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

describe.each(platforms)('on %s', (platform) => {
  let store: FaultyStore;
  beforeEach(() => {
    store = new FaultyStore(memoryStore({ now: () => now }));
  });

  async function start(options: OpenTelemetryOptions = {}, isTraced = true): Promise<TestApp> {
    const app = await startApp({
      platform,
      store,
      controllers: [Payments],
      options: { telemetry: openTelemetry(options), caller: { scope: () => 'tester' } },
      configure: (nest) => {
        if (isTraced) traceRequests(nest);
      },
    });
    apps.push(app);
    return app;
  }

  const subjectOf = ({ key }: Scenario, operation = OPERATION) => ({
    'idempotency.operation.name': operation,
    'idempotency.transport': 'http',
    'idempotency.record.key': recordKey({ scope: ['tester'], operation, key }),
  });

  const executed = (scenario: Scenario, more: object = {}) => ({
    ...subjectOf(scenario),
    'idempotency.result': 'executed',
    'idempotency.attempt.number': 1,
    'idempotency.attempt.takeover': false,
    'idempotency.attempt.end': 'completed',
    'idempotency.fencing_token': expect.any(Number),
    ...more,
  });

  /** All spans of these posts, one after the other, in order. */
  async function spansOf(...posts: (() => Promise<{ readonly status: number }>)[]) {
    const statuses: number[] = [];
    for (const post of posts) {
      statuses.push((await post()).status);
      await sdk.ended(statuses.length);
    }
    return { statuses, spans: [...sdk.spans] };
  }

  const isUnset = ({ status, events }: ReadableSpan) =>
    status.code === SpanStatusCode.UNSET && events.length === 0;

  it('an execution is written on the span of its request, and a replay links to it', async () => {
    const scenario = (await start()).scenario();
    const post = () => scenario.post('/payments');
    const { spans, statuses } = await spansOf(post, post);
    expect(statuses).toEqual([201, 201]);
    const [first, replay] = spans as [ReadableSpan, ReadableSpan];
    expect(spans.map(({ name }) => name)).toEqual(['POST /payments', 'POST /payments']);
    expect(written(first)).toEqual(executed(scenario));
    expect(linksOf(first)).toEqual([]);
    expect(written(replay)).toEqual({ ...subjectOf(scenario), 'idempotency.result': 'replayed' });
    expect(linksOf(replay)).toEqual([[idOf(first), 'first_execution']]);
    expect(replay.links[0]!.context).toMatchObject({
      traceId: first.spanContext().traceId,
      traceFlags: 1,
      isRemote: true,
    });
    expect(spans.every(isUnset)).toBe(true);
  });

  it('a conflict links to the attempt that runs; a mismatch has no link; neither is an error', async () => {
    const scenario = (await start()).scenario();
    scenario.gate.close();
    const running = scenario.post('/payments');
    await scenario.started.reached(1);
    const { spans, statuses } = await spansOf(
      () => scenario.post('/payments'),
      () => scenario.post('/payments', { json: { other: true } }),
    );
    expect(statuses).toEqual([409, 422]);
    scenario.gate.open();
    await running;
    const first = (await sdk.ended(3))[2];
    const [conflict, mismatch] = spans as [ReadableSpan, ReadableSpan];
    expect(written(conflict)).toEqual({
      ...subjectOf(scenario),
      'idempotency.result': 'in_progress',
    });
    expect(linksOf(conflict)).toEqual([[idOf(first), 'running_attempt']]);
    expect(written(mismatch)).toEqual({ ...subjectOf(scenario), 'idempotency.result': 'mismatch' });
    expect(linksOf(mismatch)).toEqual([]);
    expect(spans.every(isUnset)).toBe(true);
  });

  it('a takeover links to the attempt before it, and a replay to the takeover', async () => {
    const scenario = (await start()).scenario();
    scenario.gate.close();
    const late = scenario.post('/payments');
    await scenario.started.reached(1);
    now += LEASE_MS + 1;
    const { port } = await start();
    const takingOver = scenario.post('/payments', { port });
    await scenario.started.reached(2);
    scenario.gate.open();
    await Promise.all([late, takingOver]);
    await scenario.post('/payments', { port });
    const spans = await sdk.ended(3);
    const takeover = spans.find((span) => written(span)['idempotency.attempt.takeover'] === true)!;
    const [previous] = spans.filter((span) => span !== takeover);
    expect(written(takeover)).toEqual(
      executed(scenario, {
        'idempotency.attempt.number': 2,
        'idempotency.attempt.takeover': true,
        'idempotency.attempt.end': expect.stringMatching(/^(completed|superseded)$/),
      }),
    );
    expect(linksOf(takeover)).toEqual([[idOf(previous), 'previous_attempt']]);
    expect(linksOf(spans[2]!)).toEqual([[idOf(takeover), 'first_execution']]);
  });

  it.each([
    ['not recorded', new AlwaysOffSampler()],
    ['recorded, but not sampled', RECORDED_ONLY],
  ])('an execution that is %s is not linked to', async (_, sampler) => {
    const scenario = (await start()).scenario();
    await sdk.stop();
    sdk = TestSdk.start(sampler);
    await scenario.post('/payments');
    expect(store.sentOf('begin').map(({ command }) => 'note' in command && command.note)).toEqual([
      undefined,
    ]);
    await sdk.stop();
    sdk = TestSdk.start();
    const { spans } = await spansOf(() => scenario.post('/payments'));
    expect(written(spans[0]!)).toMatchObject({ 'idempotency.result': 'replayed' });
    expect(linksOf(spans[0]!)).toEqual([]);
  });

  it('without the store, the span has an error', async () => {
    const scenario = (await start()).scenario();
    store.always(unavailable, 'begin');
    const { spans, statuses } = await spansOf(() => scenario.post('/payments'));
    expect(statuses).toEqual([503]);
    expect(written(spans[0]!)).toEqual({
      ...subjectOf(scenario),
      'idempotency.result': 'store_unavailable',
      'error.type': 'idempotency_store_unavailable',
    });
    expect(spans[0]!.status).toEqual({ code: SpanStatusCode.ERROR });
  });

  it('a request without a key has the reason, and a failing handler how its attempt ended', async () => {
    const scenario = (await start()).scenario();
    const { spans, statuses } = await spansOf(
      () => scenario.post('/payments', { key: null }),
      () => scenario.post('/failing'),
    );
    expect(statuses).toEqual([400, 503]);
    const [keyless, failing] = spans as [ReadableSpan, ReadableSpan];
    const { 'idempotency.record.key': _, ...subject } = subjectOf(scenario);
    expect(written(keyless)).toEqual({ ...subject, 'idempotency.result': 'key_missing' });
    expect(written(failing)).toEqual(
      executed(scenario, {
        ...subjectOf(scenario, 'payments.fail'),
        'idempotency.attempt.end': 'released',
      }),
    );
    expect(spans.every(isUnset)).toBe(true);
  });

  it("with spans: 'always', each request has a span of its own, which ends with its response", async () => {
    const scenario = (await start({ spans: 'always' })).scenario();
    await scenario.post('/payments');
    await scenario.post('/payments');
    await scenario.post('/failing');
    const spans = await sdk.ended(6);
    const isOwn = ({ kind }: ReadableSpan) => kind === SpanKind.INTERNAL;
    const own = spans.filter(isOwn);
    const servers = spans.filter((span) => !isOwn(span));
    const names = ['payments.create', 'payments.create', 'payments.fail'];
    expect(own.map(({ name }) => name)).toEqual(names.map((name) => `idempotent ${name}`));
    expect(own.map((span) => span.parentSpanContext?.spanId)).toEqual(servers.map(idOf));
    expect(written(own[0]!)).toEqual(executed(scenario));
    expect(linksOf(own[1]!)).toEqual([[idOf(own[0]), 'first_execution']]);
    expect(servers.map(written)).toEqual([{}, {}, {}]);
    expect(own.map(({ status }) => status.code)).toEqual([
      ...[SpanStatusCode.UNSET, SpanStatusCode.UNSET, SpanStatusCode.ERROR],
    ]);
    expect(written(own[2]!)).toMatchObject({ 'error.type': 'ServiceUnavailableException' });
  });

  it('without a span of its request, an execution has its own', async () => {
    const scenario = (await start({}, false)).scenario();
    await scenario.post('/payments');
    await scenario.post('/payments');
    const [first, replay] = (await sdk.ended(2)) as [ReadableSpan, ReadableSpan];
    expect(first.name).toBe(`idempotent ${OPERATION}`);
    expect(written(first)).toEqual(executed(scenario));
    expect(linksOf(replay)).toEqual([[idOf(first), 'first_execution']]);
    expect(sdk.spans).toHaveLength(2);
  });

  it.each<[string, OpenTelemetryOptions, object]>([
    ['spans: false: nothing', { spans: false }, {}],
    ['recordKeys: false: no record key', { recordKeys: false }, { links: 1, attributes: 3 }],
    ['links: false: no link', { links: false }, { links: 0, attributes: 4 }],
  ])('with %s is written', async (_, options, expected) => {
    const scenario = (await start(options)).scenario();
    const post = () => scenario.post('/payments');
    const [, replay] = (await spansOf(post, post)).spans as [ReadableSpan, ReadableSpan];
    const attributes = Object.keys(written(replay));
    expect(attributes).toHaveLength('attributes' in expected ? Number(expected.attributes) : 0);
    expect(replay.links).toHaveLength('links' in expected ? Number(expected.links) : 0);
    expect(attributes.includes('idempotency.record.key')).toBe(options.links === false);
    const notes = store.sentOf('begin').map(({ command }) => 'note' in command && command.note);
    expect(notes.filter((note) => note !== undefined)).toHaveLength(
      'recordKeys' in options ? 2 : 0,
    );
  });

  it('with links: false, a replay has no link to an execution that another process noted', async () => {
    const other = (await start()).scenario();
    const port = (await start({ links: false })).port;
    const posts = [() => other.post('/payments'), () => other.post('/payments', { port })];
    const [first, replay] = (await spansOf(...posts)).spans as [ReadableSpan, ReadableSpan];
    expect(written(first)).toMatchObject({ 'idempotency.result': 'executed' });
    expect(written(replay)).toMatchObject({ 'idempotency.result': 'replayed' });
    expect(linksOf(replay)).toEqual([]);
  });
});
