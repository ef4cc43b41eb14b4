import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Controller } from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, Transport } from '@nestjs/microservices';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { trace } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-node';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import { lastValueFrom } from 'rxjs';
import { ask, startGraphqlApp } from '../graphql/support/graphql-app.js';
import { PaymentsResolver } from '../graphql/support/payments.resolver.js';
import { startConsumer } from '../messages/support/start-consumer.js';
import { InScenario, payloadOf } from '../socket/support/in-scenario.js';
import { KnownCallers } from '../socket/support/known-callers.js';
import { startSocketApp } from '../socket/support/socket-app.js';
import { socketPlatforms } from '../socket/support/socket-platforms.js';
import type { Scenario } from '../../support/http/scenario.js';
import { freePort } from '../../support/servers/free-port.js';
import {
  idOf,
  linksOf,
  TestSdk,
  traceRequests,
  written,
} from '../../support/telemetry/test-sdk.js';

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

const idOfActive = () => trace.getActiveSpan()?.spanContext().spanId;

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
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent({ operation: 'payments.pay' })
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: { execution: await scenario.run() } };
  }
}

it.each(socketPlatforms)('a message of a socket has a span of its own, on %s', async (platform) => {
  const app = await startSocketApp({
    platform,
    store: memoryStore(),
    gateways: [Payments],
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
