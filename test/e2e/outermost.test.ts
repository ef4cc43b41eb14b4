import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Module, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Args, Mutation, Resolver } from '@nestjs/graphql';
import {
  type ClientProxy,
  ClientProxyFactory,
  MessagePattern,
  type MicroserviceOptions,
  Transport,
} from '@nestjs/microservices';
import { ExpressAdapter } from '@nestjs/platform-express';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { IdempotencyModule, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { payloadField } from 'nestjs-idempotency/message';
import { firstValueFrom } from 'rxjs';
import {
  CircuitBreaker,
  Fallback,
  ResilienceModule,
  ResilienceService,
} from '../support/nest/resilience.js';
import { freePort } from '../support/servers/free-port.js';
import { useServer } from '../support/servers/use-server.js';
import type { Scenario } from '../support/http/scenario.js';
import { ask, startGraphqlApp } from './graphql/support/graphql-app.js';
import {
  InScenario,
  KnownCallers,
  payloadOf,
  startSocketApp,
} from './socket/support/socket-app.js';

let runs = 0;
const FALLBACK = -1;

@Resolver()
class PaymentsResolver {
  @Mutation(() => Number)
  @Idempotent()
  @CircuitBreaker('payments')
  pay(@Args('amount') amount: number): number {
    runs += 1;
    return amount * runs;
  }

  @Mutation(() => Number)
  @Idempotent()
  @Fallback(() => FALLBACK)
  refund(): number {
    runs += 1;
    throw new Error('planned');
  }
}

describe('the outermost interceptor on GraphQL', () => {
  const start = (isOutermost: boolean) =>
    startGraphqlApp({
      store: memoryStore(),
      resolvers: [PaymentsResolver],
      more: { imports: [ResilienceModule], isOutermost },
    });
  const app = useServer(() => start(true));
  const onRoute = useServer(() => start(false));

  it('replays a mutation under an open breaker, which rejects another one', async () => {
    runs = 0;
    const breaker = app.nest.get(ResilienceService).circuitBreaker('payments');
    const scenario = app.scenario();
    const document = 'mutation { pay(amount: 7) }';
    expect(await ask(scenario, document)).toMatchObject({ data: { pay: 7 } });
    breaker.isOpen = true;
    expect(await ask(scenario, document)).toMatchObject({ data: { pay: 7 } });
    expect((await ask(app.scenario(), document)).errors).toHaveLength(1);
    breaker.isOpen = false;
    const { calls, rejected } = breaker;
    expect({ runs, calls, rejected }).toEqual({ runs: 1, calls: 1, rejected: 1 });
  });

  it.each([
    ['stores what a fallback returns', app, 1],
    ['on the field, releases the failure behind a fallback', onRoute, 2],
  ])('%s', async (_, one, expected) => {
    runs = 0;
    const scenario = one.scenario();
    const refunded = { data: { refund: FALLBACK } };
    expect(await ask(scenario, 'mutation { refund }')).toMatchObject(refunded);
    expect(await ask(scenario, 'mutation { refund }')).toMatchObject(refunded);
    expect(runs).toBe(expected);
  });
});

@WebSocketGateway()
class PaymentsGateway extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent()
  @CircuitBreaker('sockets')
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }
}

describe('the outermost interceptor on sockets', () => {
  const app = useServer(() =>
    startSocketApp({
      platform: 'socket.io',
      store: memoryStore(),
      gateways: [PaymentsGateway],
      more: { imports: [ResilienceModule], isOutermost: true },
    }),
  );

  it('replays under an open breaker, which rejects another message', async () => {
    const client = await app.connect('alice');
    const breaker = app.nest.get(ResilienceService).circuitBreaker('sockets');
    const scenario = app.scenario();
    const first = await client.ask('pay', payloadOf(scenario));
    expect(first).toEqual({ event: 'paid', data: { execution: 1 } });
    breaker.isOpen = true;
    expect(await client.ask('pay', payloadOf(scenario))).toEqual(first);
    const other = await client.ask('pay', payloadOf(app.scenario()));
    expect(other).toMatchObject({ event: 'exception' });
    const { calls, rejected } = breaker;
    expect({ calls, rejected }).toEqual({ calls: 1, rejected: 1 });
    expect(scenario.executions).toBe(1);
  });
});

@Controller()
class OrdersController {
  @MessagePattern('order.price')
  @Idempotent({ key: payloadField('id'), message: { consumer: 'billing' } })
  @CircuitBreaker('orders')
  price(): number {
    runs += 1;
    return runs;
  }

  @MessagePattern('order.refund')
  @Idempotent({ key: payloadField('id'), message: { consumer: 'billing' } })
  @Fallback(() => FALLBACK)
  refund(): number {
    runs += 1;
    throw new Error('planned');
  }

  @MessagePattern('order.plain')
  plain(): string {
    return 'unprotected';
  }
}

@Controller()
class OthersController {
  @MessagePattern('other.price')
  @Idempotent({ key: payloadField('id'), message: { consumer: 'others' } })
  price(): string {
    runs += 1;
    return `other ${String(runs)}`;
  }
}

const idempotency = () => IdempotencyModule.forRoot({ store: memoryStore(), isOutermost: true });

describe('the outermost interceptor on messages', () => {
  let app: INestApplicationContext | undefined;
  let client: ClientProxy | undefined;
  afterEach(async () => {
    await client?.close();
    await app?.close();
  });

  const send = (id: string, pattern = 'order.price') =>
    firstValueFrom(client!.send<unknown>(pattern, { id }));

  async function transport() {
    runs = 0;
    const options = { host: '127.0.0.1', port: await freePort() };
    client = ClientProxyFactory.create({ transport: Transport.TCP, options });
    return { transport: Transport.TCP, options } as MicroserviceOptions;
  }

  async function expectReplayUnderOpenBreaker() {
    const breaker = app!.get(ResilienceService).circuitBreaker('orders');
    expect(await send('1')).toBe(1);
    breaker.isOpen = true;
    expect(await send('1')).toBe(1);
    await expect(send('2')).rejects.toBeDefined();
    breaker.isOpen = false;
    const { calls, rejected } = breaker;
    expect({ runs, calls, rejected }).toEqual({ runs: 1, calls: 1, rejected: 1 });
    expect(await send('3', 'order.plain')).toBe('unprotected');
    runs = 0;
    const refund = () => send('1', 'order.refund');
    expect([await refund(), await refund(), runs]).toEqual([FALLBACK, FALLBACK, 1]);
  }

  it('replays under an open breaker in a microservice', async () => {
    @Module({ imports: [idempotency(), ResilienceModule], controllers: [OrdersController] })
    class OrdersModule {}
    const microservice = await NestFactory.createMicroservice<MicroserviceOptions>(OrdersModule, {
      ...(await transport()),
      logger: false,
    });
    app = microservice;
    await microservice.listen();
    await expectReplayUnderOpenBreaker();
  });

  it.each([
    ['before the application is initialized', false],
    ['after that', true],
  ])('replays under an open breaker in a hybrid application, %s', async (_, isInitialized) => {
    @Module({ imports: [idempotency(), ResilienceModule], controllers: [OrdersController] })
    class HybridModule {}
    const hybrid = await NestFactory.create(HybridModule, new ExpressAdapter(), { logger: false });
    app = hybrid;
    hybrid.connectMicroservice<MicroserviceOptions>(await transport(), { inheritAppConfig: true });
    if (isInitialized) await hybrid.init();
    await hybrid.startAllMicroservices();
    await expectReplayUnderOpenBreaker();
  });

  it('is not called with a configuration of its own: the one on the route protects', async () => {
    @Module({ imports: [idempotency(), ResilienceModule], controllers: [OrdersController] })
    class HybridModule {}
    const hybrid = await NestFactory.create(HybridModule, new ExpressAdapter(), { logger: false });
    app = hybrid;
    hybrid.connectMicroservice<MicroserviceOptions>(await transport());
    await hybrid.init();
    await hybrid.startAllMicroservices();
    // No global interceptor is called, that of the breaker neither.
    const breaker = hybrid.get(ResilienceService).circuitBreaker('orders');
    breaker.isOpen = true;
    expect([await send('1'), await send('1'), await send('2')]).toEqual([1, 1, 2]);
    expect({ runs, rejected: breaker.rejected }).toEqual({ runs: 2, rejected: 0 });
  });

  it('is called by the module whose options count, where several are', async () => {
    @Module({ imports: [idempotency()], controllers: [OrdersController] })
    class OrdersModule {}
    const other = IdempotencyModule.forRoot({
      store: memoryStore(),
      isGlobal: false,
      isOutermost: true,
    });
    @Module({ imports: [other], controllers: [OthersController] })
    class OthersModule {}
    @Module({ imports: [OrdersModule, OthersModule, ResilienceModule] })
    class AppModule {}
    const microservice = await NestFactory.createMicroservice<MicroserviceOptions>(AppModule, {
      ...(await transport()),
      logger: false,
    });
    app = microservice;
    await microservice.listen();
    await expectReplayUnderOpenBreaker();
    runs = 1;
    expect(await send('1', 'other.price')).toBe('other 2');
    expect(await send('1', 'other.price')).toBe('other 2');
  });
});
