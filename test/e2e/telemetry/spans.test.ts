import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Body,
  Controller,
  type ExecutionContext,
  Headers,
  Injectable,
  Post,
  ServiceUnavailableException,
} from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, Transport } from '@nestjs/microservices';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  type IdempotencyModuleOptions,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry, type OpenTelemetryOptions } from 'nestjs-idempotency/opentelemetry';
import { recordKey } from 'nestjs-idempotency/store';
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import {
  AlwaysOffSampler,
  type ReadableSpan,
  type Sampler,
  SamplingDecision,
} from '@opentelemetry/sdk-trace-node';
import { lastValueFrom } from 'rxjs';
import fc from 'fast-check';
import { InScenario, type Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import {
  exported,
  idOf,
  linksOf,
  TestSdk,
  traceRequests,
  written,
} from '../../support/telemetry/test-sdk.js';
import { useServer } from '../../support/servers/use-server.js';
import { freePort } from '../../support/servers/free-port.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { LoggedLines } from '../../support/nest/logged-lines.js';
import { until } from '../../support/waiting/until.js';
import { projectRoot } from '../../support/project-root.js';
import { ask, startGraphqlApp } from '../graphql/support/graphql-app.js';
import { PaymentsResolver } from '../graphql/support/payments.resolver.js';
import { startConsumer } from '../messages/support/start-consumer.js';
import {
  InScenario as InSocket,
  KnownCallers,
  payloadOf,
  startSocketApp,
} from '../socket/support/socket-app.js';

const LEASE_MS = 60_000;
const OPERATION = 'payments.create';

@Controller()
class Payments {
  @Post('payments')
  @Idempotent({ operation: OPERATION, lease: { duration: LEASE_MS } })
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

const idOfActive = () => trace.getActiveSpan()?.spanContext().spanId;

/** On Express: attribution.test.ts and port.test.ts have both platforms. */
describe('a span of a request', () => {
  /** Spans for processors in the process, which are not exported. */
  const RECORDED_ONLY: Sampler = {
    shouldSample: () => ({ decision: SamplingDecision.RECORD }),
  };

  let sdk: TestSdk;
  let now = Date.UTC(2026, 0, 1);
  const store = new FaultyStore(memoryStore({ now: () => now }));
  const apps: TestApp[] = [];
  beforeEach(() => {
    sdk = TestSdk.start();
  });
  afterEach(async () => {
    await sdk.stop();
    await Promise.all(apps.splice(0).map((app) => app.close()));
    store.heal();
    store.sent.length = 0;
  });

  async function open(
    options: OpenTelemetryOptions = {},
    isTraced = true,
    annotate = false,
  ): Promise<TestApp> {
    return startApp({
      platform: 'express',
      store,
      controllers: [Payments],
      options: { telemetry: openTelemetry(options), annotate, caller: { scope: () => 'tester' } },
      configure: (nest) => {
        if (isTraced) traceRequests(nest);
      },
    });
  }
  const app = useServer(() => open());

  async function start(...given: Parameters<typeof open>): Promise<TestApp> {
    const started = await open(...given);
    apps.push(started);
    return started;
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
    const scenario = app.scenario();
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
    const scenario = app.scenario();
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
    expect(written(mismatch)).toEqual({
      ...subjectOf(scenario),
      'idempotency.result': 'mismatch',
    });
    expect(linksOf(mismatch)).toEqual([]);
    expect(spans.every(isUnset)).toBe(true);
  });

  it.each([
    ['', false],
    [', of an annotated record', true],
  ])('a takeover links to the attempt before it, and a replay to the takeover%s', async (_, on) => {
    const scenario = app.scenario();
    scenario.gate.close();
    const late = scenario.post('/payments', { port: (await start({}, true, on)).port });
    await scenario.started.reached(1);
    now += LEASE_MS + 1;
    const { port } = await start({}, true, on);
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
    const scenario = app.scenario();
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
    const scenario = app.scenario();
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
    const scenario = app.scenario();
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
    const other = app.scenario();
    const port = (await start({ links: false })).port;
    const posts = [() => other.post('/payments'), () => other.post('/payments', { port })];
    const [first, replay] = (await spansOf(...posts)).spans as [ReadableSpan, ReadableSpan];
    expect(written(first)).toMatchObject({ 'idempotency.result': 'executed' });
    expect(written(replay)).toMatchObject({ 'idempotency.result': 'replayed' });
    expect(linksOf(replay)).toEqual([]);
  });
});

describe('on other transports', () => {
  let sdk: TestSdk;
  const closing: (() => Promise<unknown>)[] = [];
  beforeEach(() => {
    sdk = TestSdk.start();
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    await sdk.stop();
  });

  const options = () => ({ telemetry: openTelemetry() });

  /** An execution and its replay, each with a span of its own. */
  function expectOwnSpans(spans: readonly ReadableSpan[], operation: string, transport: string) {
    const own = spans.filter(({ name }) => name === `idempotent ${operation}`);
    expect(own.map(written)).toMatchObject(
      ['executed', 'replayed'].map((result) => ({
        'idempotency.operation.name': operation,
        'idempotency.transport': transport,
        'idempotency.result': result,
      })),
    );
    expect(linksOf(own[1]!)).toEqual([[idOf(own[0]), 'first_execution']]);
  }

  @Controller()
  class Orders {
    @MessagePattern('price')
    @Idempotent({ operation: 'orders.price', key: () => 'k1', message: { consumer: 'billing' } })
    price() {
      return { active: idOfActive() };
    }
  }

  it('a message without an active span has a span of its own', async () => {
    const place = { host: '127.0.0.1', port: await freePort() };
    const app = await startConsumer(
      { transport: Transport.TCP, options: place },
      { controllers: [Orders], options: { store: memoryStore(), ...options() } },
    );
    closing.push(() => app.close());
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options: place });
    closing.unshift(async () => client.close());
    const send = () => lastValueFrom(client.send<{ active: string }>('price', { id: 1 }));
    const { active } = await send();
    await send();
    const spans = await sdk.ended(2);
    expectOwnSpans(spans, 'orders.price', 'message');
    expect(active).toBe(idOf(spans[0]));
  });

  it('each field of a GraphQL document has a span of its own', async () => {
    const app = await startGraphqlApp({
      store: memoryStore(),
      resolvers: [PaymentsResolver],
      options: options(),
      configure: traceRequests,
    });
    closing.push(() => app.close());
    const scenario = app.scenario();
    const charge = (name: string, key: string) =>
      `${name}: chargeByArgument(amount: 1, idempotencyKey: "${scenario.key}${key}") { execution }`;
    const document = `mutation { ${charge('one', '1')} ${charge('again', '1')} ${charge('two', '2')} }`;
    await ask(scenario, document, { key: null });
    const spans = await sdk.ended(4);
    const [server] = spans.filter(({ name }) => name.startsWith('POST'));
    expect(written(server!)).toEqual({});
    const fields = spans.filter((span) => span !== server);
    const operation = 'PaymentsResolver.chargeByArgument';
    expect(new Set(fields.map(({ name }) => name))).toEqual(new Set([`idempotent ${operation}`]));
    expect(fields.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual(
      Array(3).fill(idOf(server)),
    );
    const [one, again, two] = fields.map((span) => written(span));
    expect([one, again, two].map((field) => field!['idempotency.result'])).toEqual([
      ...['executed', 'replayed', 'executed'],
    ]);
    expect(again!['idempotency.record.key']).toBe(one!['idempotency.record.key']);
    expect(two!['idempotency.record.key']).not.toBe(one!['idempotency.record.key']);
    expect(linksOf(fields[1]!)).toEqual([[idOf(fields[0]), 'first_execution']]);
  });

  @WebSocketGateway()
  class PaymentsGateway extends KnownCallers {
    @SubscribeMessage('pay')
    @Idempotent({ operation: 'payments.pay' })
    async pay(@InSocket() scenario: Scenario) {
      return { event: 'paid', data: { execution: await scenario.run() } };
    }
  }

  it('a message of a socket has a span of its own', async () => {
    const app = await startSocketApp({
      platform: 'ws',
      store: memoryStore(),
      gateways: [PaymentsGateway],
      options: options(),
      configure: traceRequests,
    });
    closing.push(() => app.close());
    const client = await app.connect('alice');
    const scenario = app.scenario();
    await client.ask('pay', payloadOf(scenario));
    await client.ask('pay', payloadOf(scenario));
    await sdk.ended(2);
    expectOwnSpans(sdk.spans, 'payments.pay', 'websocket');
  });
});

describe('a span of a call', () => {
  @Injectable()
  class Mails {
    @Idempotent({ operation: 'mails.send', key: (id: string) => id })
    async send(id: string) {
      return Promise.resolve(`sent ${id.length}`);
    }
  }

  let sdk: TestSdk;
  let app: CallingApp | undefined;
  let now = Date.UTC(2026, 0, 1);
  beforeEach(() => {
    sdk = TestSdk.start();
  });
  afterEach(async () => {
    await app?.nest.close();
    app = undefined;
    await sdk.stop();
  });

  const unreadable = () => {
    throw new Error('unreadable');
  };

  let keys = 0;
  const newKey = () => `key-${(keys += 1)}`;

  async function start(options: Partial<IdempotencyModuleOptions> = {}) {
    const store = new FaultyStore(memoryStore({ now: () => now }));
    const telemetry = openTelemetry();
    app = await callingApp({ providers: [Mails] }, { store, telemetry, ...options });
    const { nest } = app;
    const service = nest.get(IdempotencyService, { strict: false });
    return {
      store,
      mails: nest.get(Mails, { strict: false }),
      reconciler: nest.get(IdempotencyReconciler, { strict: false }),
      pay: (key: string, operation: () => unknown = () => 'paid', more: object = {}) =>
        service.run({ operation: 'pay', key, scope: 'alice', ...more }, operation),
    };
  }

  /** Runs `work` in a span, as a worker for jobs might have one. */
  const inJob = <Result>(work: () => Promise<Result>): Promise<Result> =>
    trace.getTracer('test').startActiveSpan('job', async (span) => {
      try {
        return await work();
      } finally {
        span.end();
      }
    });

  const named = (name: string) => sdk.spans.filter((span) => span.name === name);
  const own = () => named('idempotent pay');

  describe('a call', () => {
    it('has a span of its own within the active one, and its replay links to it', async () => {
      const { pay } = await start();
      const key = newKey();
      await inJob(async () => {
        await pay(key);
        await pay(key);
      });
      const [first, replay] = own() as [ReadableSpan, ReadableSpan];
      const [job] = named('job');
      expect([first, replay].map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
        idOf(job),
        idOf(job),
      ]);
      expect(written(first)).toMatchObject({
        'idempotency.operation.name': 'pay',
        'idempotency.transport': 'call',
        'idempotency.result': 'executed',
        'idempotency.attempt.end': 'completed',
      });
      expect(linksOf(replay)).toEqual([[idOf(first), 'first_execution']]);
      expect(written(job!)).toEqual({});
      expect(sdk.spans).toHaveLength(3);
    });

    it('without an active span has one of its own, and what the operation does is within it', async () => {
      const { pay, mails } = await start();
      const key = newKey();
      await pay(key, () => mails.send(key));
      const [outer] = own();
      const [inner] = named('idempotent mails.send');
      expect(inner!.parentSpanContext?.spanId).toBe(idOf(outer));
      expect(written(inner!)).toMatchObject({ 'idempotency.operation.name': 'mails.send' });
      expect(written(outer!)).toMatchObject({ 'idempotency.operation.name': 'pay' });
    });

    it('whose operation throws has an error without a message; its replay has none', async () => {
      const { pay } = await start();
      const key = newKey();
      const fail = () => Promise.reject(new RangeError('secret'));
      const more = { outcome: { keep: () => true } };
      await expect(pay(key, fail, more)).rejects.toThrow('secret');
      await expect(pay(key, fail, more)).rejects.toMatchObject({
        code: 'idempotency_failure_replayed',
      });
      const [first, replay] = own() as [ReadableSpan, ReadableSpan];
      expect(first.status).toEqual({ code: SpanStatusCode.ERROR });
      expect(written(first)).toMatchObject({
        'error.type': 'RangeError',
        'idempotency.attempt.end': 'failed',
      });
      expect(first.events).toEqual([]);
      expect(replay.status).toEqual({ code: SpanStatusCode.UNSET });
      expect(written(replay)).not.toHaveProperty('error.type');
    });

    it.each<[string, Error, string]>([
      [
        'reads like a message',
        Object.assign(new TypeError(), { code: 'card 4242 refused' }),
        'TypeError',
      ],
      [
        'is longer than a code',
        Object.assign(new TypeError(), { code: 'x'.repeat(65) }),
        'TypeError',
      ],
      ['cannot be read', Object.defineProperty(new Error(), 'code', { get: unreadable }), '_OTHER'],
    ])('whose error has a code that %s ends without it', async (_, error, errorType) => {
      const { pay } = await start();
      await expect(pay(newKey(), () => Promise.reject(error))).rejects.toBe(error);
      expect(written(own()[0]!)).toMatchObject({ 'error.type': errorType });
    });

    it('without a key has a span of its own, too', async () => {
      const { mails } = await start();
      await inJob(async () => {
        await expect(mails.send('')).rejects.toMatchObject({ code: 'idempotency_key_missing' });
      });
      const [invalid] = named('idempotent mails.send');
      expect(written(invalid!)).toEqual({
        'idempotency.operation.name': 'mails.send',
        'idempotency.transport': 'call',
        'idempotency.result': 'key_missing',
      });
      expect(invalid!.status).toEqual({ code: SpanStatusCode.UNSET });
      expect(written(named('job')[0]!)).toEqual({});
    });

    it('that is saved after its span has ended has a span for the save', async () => {
      const { pay, store } = await start({ storeErrors: { saveTimeout: 50 } });
      store.always(unavailable, 'complete');
      await pay(newKey());
      const [first] = own() as [ReadableSpan];
      expect(written(first)).not.toHaveProperty('idempotency.attempt.end');
      expect(first.status.code).toBe(SpanStatusCode.UNSET);
      store.heal();
      await sdk.ended(2);
      const [save] = named('idempotency save');
      expect(written(save!)).toEqual({
        'idempotency.operation.name': 'pay',
        'idempotency.transport': 'call',
        'idempotency.record.key': written(first)['idempotency.record.key'],
        'idempotency.attempt.number': 1,
        'idempotency.attempt.end': 'completed',
      });
      expect(linksOf(save!)).toEqual([[idOf(first), 'own_attempt']]);
      expect(save!.spanContext().traceId).toBe(first.spanContext().traceId);
    });

    it('that is not protected has its own save, and two of one key are not confused', async () => {
      const { pay, store } = await start({
        storeErrors: { whenUnavailable: 'execute' },
        lease: { duration: 300_000, maxExecution: 600_000 },
      });
      store.always(unavailable, 'begin', 'complete');
      const [one, both] = [newKey(), newKey()];
      await pay(one);
      const gate = new Gate();
      const started = new Tally();
      gate.close();
      const operation = async () => {
        started.add();
        await gate.pass();
      };
      const running = [pay(both, operation), pay(both, operation)];
      await started.reached(2);
      gate.open();
      await Promise.all(running);
      expect(own().map((span) => written(span)['idempotency.result'])).toEqual(
        Array(3).fill('unprotected'),
      );
      store.heal();
      await sdk.ended(4);
      await app!.nest.close();
      const saves = named('idempotency save');
      expect(saves.map(linksOf)).toEqual([[[idOf(own()[0]), 'own_attempt']]]);
      expect(saves.map((save) => written(save)['idempotency.attempt.end'])).toEqual(['completed']);
    });
  });

  it('of the reconciler is of a round that finds something, with a link to the attempt that died', async () => {
    const { pay, reconciler, store } = await start({
      reconcile: { interval: 86_400_000, after: 1_000 },
    });
    const onTakeover = () => ({ value: 'found' });
    const lease = { duration: LEASE_MS, onTakeover };
    reconciler.register('pay', { lease });
    const begins = store.sentOf('begin').length;
    await reconciler.reconcile();
    expect(store.sentOf('begin').length).toBeGreaterThan(begins);
    expect(sdk.spans).toEqual([]);
    const key = newKey();
    const gate = Gate.closed();
    let dead: string | undefined;
    const other = await callingApp({}, { store, telemetry: openTelemetry() });
    const dying = other.nest
      .get(IdempotencyService, { strict: false })
      .run({ operation: 'pay', key, scope: 'alice', lease }, () => {
        dead = idOfActive();
        return gate.pass();
      })
      .catch(() => undefined);
    await until(() => dead !== undefined);
    now += LEASE_MS + 1_000;
    await inJob(() => reconciler.reconcile());
    const [round] = named('idempotency reconcile');
    expect(written(round!)).toEqual({
      'idempotency.reconcile.coverage': 'complete',
      'idempotency.reconcile.completed': 1,
      'idempotency.reconcile.released': 0,
      'idempotency.reconcile.overtaken': 0,
      'idempotency.reconcile.failed': 0,
      'idempotency.reconcile.unknown': 0,
    });
    expect(linksOf(round!)).toEqual([[dead, 'previous_attempt']]);
    expect(round!.parentSpanContext?.spanId).toBe(idOf(named('job')[0]));
    expect(await pay(key, undefined, { lease })).toBe('found');
    gate.open();
    await dying;
    await other.nest.close();
  });
});

describe('an SDK', () => {
  const { name, version } = JSON.parse(
    readFileSync(join(projectRoot, 'package.json'), 'utf8'),
  ) as Readonly<Record<string, unknown>>;

  let app: TestApp;
  let sdk: TestSdk | undefined;
  const log = new LoggedLines();

  /** The application starts without an SDK. */
  beforeEach(async () => {
    app = await startApp({
      platform: 'express',
      store: memoryStore(),
      controllers: [Payments],
      options: { telemetry: openTelemetry(), caller: { scope: () => 'tester' } },
      configure: (nest) => {
        traceRequests(nest);
        nest.useLogger(log);
      },
    });
  });
  afterEach(async () => {
    await app.close();
    await sdk?.stop();
    sdk = undefined;
    expect(log.own).toEqual([]);
  });

  const call = (key: string) =>
    app.nest
      .get(IdempotencyService, { strict: false })
      .run({ operation: 'mails.send', key, scope: 'alice' }, () => idOfActive());

  /** Sends a first request, its retry and a call. @returns the spans that they have. */
  async function traced(scenario: Scenario): Promise<TestSdk['spans']> {
    const before = sdk!.spans.length;
    await scenario.post('/payments');
    await sdk!.ended(before + 1);
    await scenario.post('/payments');
    await sdk!.ended(before + 2);
    await call(scenario.key);
    return sdk!.spans.slice(before);
  }

  function expectTraced([first, replay, called]: TestSdk['spans']): void {
    expect(written(first!)).toMatchObject({
      'idempotency.result': 'executed',
      'idempotency.attempt.end': 'completed',
    });
    expect(linksOf(replay!)).toEqual([[idOf(first), 'first_execution']]);
    expect(called!.name).toBe('idempotent mails.send');
    expect(called!.instrumentationScope).toMatchObject({ name, version });
  }

  it('without an SDK, nothing is kept; one that starts after the application gets its spans', async () => {
    const early = app.scenario();
    const traces: unknown[] = [];
    app.nest.get(IdempotencyEvents).subscribe((event) => {
      if (event.type === 'replayed') traces.push(event.trace);
    });
    expect((await early.post('/payments')).status).toBe(201);
    expect((await early.post('/payments')).replayed).toBe(true);
    expect(await call('early')).toBeUndefined();
    expect(traces).toEqual([undefined]);
    sdk = TestSdk.start();
    expectTraced(await traced(app.scenario()));
    await early.post('/payments');
    const [, , , replay] = await sdk.ended(4);
    expect(written(replay!)).toMatchObject({ 'idempotency.result': 'replayed' });
    expect(linksOf(replay!)).toEqual([]);
  });

  it('an SDK that starts again, twice, gets its spans, and links lead to those of the last one', async () => {
    const known = app.scenario();
    sdk = TestSdk.start();
    expectTraced(await traced(known));
    const first = idOf(sdk.spans[0]);
    for (let restart = 0; restart < 2; restart += 1) {
      await sdk.stop();
      await call(`stopped ${String(restart)}`);
      sdk = TestSdk.start();
      expectTraced(await traced(app.scenario()));
      await known.post('/payments');
      expect(linksOf((await sdk.ended(4))[3]!)).toEqual([[first, 'first_execution']]);
    }
  });

  it('an attempt that outlives its SDK ends without a span', async () => {
    sdk = TestSdk.start();
    const scenario = app.scenario();
    scenario.gate.close();
    const running = scenario.post('/payments');
    await scenario.started.reached(1);
    await sdk.stop();
    sdk = TestSdk.start();
    scenario.gate.open();
    expect((await running).status).toBe(201);
    expect(sdk.spans).toEqual([]);
    expectTraced(await traced(app.scenario()));
  });
});

@Injectable()
class MarkedMails {
  @Idempotent({ key: (id: string, _user: string) => id, scope: (_id, user) => user })
  async send(id: string, user: string, text: string) {
    return Promise.reject(new Error(`${id} ${user} ${text}`));
  }
}

@Controller()
class MarkedController {
  constructor(
    private readonly mails: MarkedMails,
    private readonly idempotency: IdempotencyService,
  ) {}

  @Post('things')
  @Idempotent()
  async create(
    @Body() { body }: { body: string },
    @Headers('idempotency-key') key: string,
    @Headers('authorization') user: string,
  ) {
    await this.mails.send(key, user, body).catch(() => undefined);
    return this.idempotency.run(
      { operation: 'things.create', key, scope: user, payload: { body } },
      () => ({ body }),
    );
  }
}

const mark = fc.stringMatching(/^[a-zA-Z0-9]{12}$/);
const inputs = fc.record({ key: mark, user: mark, body: mark, header: mark });

it('no key, caller, content or message of an error is in a span', async () => {
  const sdk = TestSdk.start();
  const store = new FaultyStore(memoryStore());
  const app = await startApp({
    platform: 'express',
    store,
    controllers: [MarkedController],
    providers: [MarkedMails],
    guard: {
      canActivate: (context: ExecutionContext) => {
        const request = context.switchToHttp().getRequest<Record<string, unknown>>();
        const { authorization } = request.headers as { authorization?: string };
        return Object.assign(request, { user: { id: authorization } }) === request;
      },
    },
    options: { telemetry: openTelemetry(), storeErrors: { commandTimeout: 5_000 } },
    configure: (nest) => {
      traceRequests(nest);
    },
  });
  try {
    for (const { key, user, body, header } of fc.sample(inputs, 20)) {
      const send = async (content: object, more: Record<string, string> = {}) => {
        const headers = {
          'idempotency-key': `"${key}"`,
          authorization: user,
          'x-header': header,
          'content-type': 'application/json',
          ...more,
        };
        const init = { method: 'POST', headers, body: JSON.stringify(content) };
        return (await fetch(`http://127.0.0.1:${String(app.port)}/things`, init)).status;
      };
      const before = sdk.spans.length;
      expect(await send({ body })).toBe(201);
      expect(await send({ body })).toBe(201);
      expect(await send({ body, header })).toBe(422);
      expect(await send({ body }, { 'idempotency-key': `${key}""${user}` })).toBe(400);
      store.next('begin', () => Promise.reject(new Error([key, user, body, header].join(' '))));
      expect(await send({ body })).toBe(503);
      await sdk.ended(before + 7);
      const text = sdk.spans.slice(before).map(exported).join('\n');
      for (const known of ['executed', 'replayed', 'mismatch', 'key_invalid', 'error.type']) {
        expect(text).toContain(known);
      }
      expect([key, user, body, header].filter((each) => text.includes(each))).toEqual([]);
    }
  } finally {
    await app.close();
    await sdk.stop();
  }
});
