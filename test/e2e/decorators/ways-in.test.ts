import { Controller } from '@nestjs/common';
import { Mutation, Resolver } from '@nestjs/graphql';
import { EventPattern, RpcException } from '@nestjs/microservices';
import { SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { GraphQLError } from 'graphql';
import { expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { throwError } from 'rxjs';
import type { Scenario } from '../../support/http/scenario.js';
import { ask, startGraphqlApp } from '../graphql/support/graphql-app.js';
import { InScenario as InDocument } from '../graphql/support/in-scenario.js';
import { Charge } from '../graphql/support/payments.resolver.js';
import { useBroker } from '../messages/support/use-broker.js';
import { InScenario as InMessage, payloadOf } from '../socket/support/in-scenario.js';
import { KnownCallers } from '../socket/support/known-callers.js';
import { startSocketApp } from '../socket/support/socket-app.js';
import { Wrapping } from './support/wrapping.js';

const { consumers, openLimitedQueue } = useBroker();

/** Wraps the method as decorators for transactions and spans do. */
const asynchronous = Wrapping(async (run) => {
  await Promise.resolve();
  return run() as unknown;
});

// A failure before the operation is never kept. A failure that is kept shows that the operation was entered.
const options = { outcome: () => true };

it('keeps a mutation’s failure below and above another decorator', async () => {
  @Resolver()
  class Payments {
    @asynchronous
    @Mutation(() => Charge, { nullable: true })
    @asynchronous
    @Idempotent(options)
    @asynchronous
    async declined(@InDocument() scenario: Scenario) {
      throw new GraphQLError(`declined ${await scenario.run()}`);
    }
  }
  const app = await startGraphqlApp({ store: memoryStore(), resolvers: [Payments] });
  const scenario = app.scenario();
  const sending = { key: scenario.key };
  const document = 'mutation { declined { execution } }';
  const first = await ask(scenario, document, sending);
  expect(first.errors?.[0]?.message).toBe('declined 1');
  expect(await ask(scenario, document, sending)).toEqual(first);
  expect(scenario.executions).toBe(1);
  await app.close();
});

it('keeps a gateway’s failure below and above another decorator', async () => {
  @WebSocketGateway()
  class Payments extends KnownCallers {
    @asynchronous
    @SubscribeMessage('pay')
    @asynchronous
    @Idempotent(options)
    @asynchronous
    async pay(@InMessage() scenario: Scenario) {
      throw new WsException({ execution: await scenario.run() });
    }
  }
  const app = await startSocketApp({
    platform: 'ws',
    store: memoryStore(),
    gateways: [Payments],
  });
  const scenario = app.scenario();
  const client = await app.connect('alice');
  const first = await client.ask('pay', payloadOf(scenario));
  expect(first).toMatchObject({ event: 'exception', data: { execution: 1 } });
  expect(await client.ask('pay', payloadOf(scenario))).toEqual(first);
  expect(scenario.executions).toBe(1);
  await app.close();
});

it.each(['a promise', 'an Observable'])(
  'keeps an event’s failure below and above another decorator, with %s',
  async (kind) => {
    let runs = 0;

    @Controller()
    class Payments {
      @asynchronous
      @EventPattern('paid')
      @asynchronous
      @Idempotent({ ...options, message: { consumer: 'payments', onFailure: 'dead-letter' } })
      @asynchronous
      handle(_event: unknown) {
        runs += 1;
        const failure = new RpcException('declined');
        return kind === 'a promise' ? Promise.reject(failure) : throwError(() => failure);
      }
    }
    const { queue, deadLettered } = await openLimitedQueue();
    await consumers.start(queue, Payments, { store: memoryStore() });
    await queue.emit('paid', { id: 1 }, { messageId: 'm1' });
    await queue.emit('paid', { id: 1 }, { messageId: 'm1' });
    await deadLettered.holds(2);
    await queue.isEmpty();
    expect(runs).toBe(1);
  },
);
