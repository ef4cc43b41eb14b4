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

/** As decorators for transactions and spans do. */
const asynchronous = Wrapping(async (run) => {
  await Promise.resolve();
  return run() as unknown;
});

// What fails before the operation is reached is never kept: a failure that is kept was an entry that was heard of.
const options = { keep: () => true };

it('a mutation’s failure is kept below and above another decorator', async () => {
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

it('a gateway’s failure is kept below and above another decorator', async () => {
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
  'an event’s failure is kept below and above another decorator: by %s',
  async (kind) => {
    let runs = 0;

    @Controller()
    class Payments {
      @asynchronous
      @EventPattern('paid')
      @asynchronous
      @Idempotent({ ...options, consumer: 'payments', onFailure: 'dead-letter' })
      @asynchronous
      handle(_event: unknown) {
        runs += 1;
        const failure = new RpcException('declined');
        return kind === 'a promise' ? Promise.reject(failure) : throwError(() => failure);
      }
    }
    const { queue, aside } = await openLimitedQueue();
    await consumers.start(queue, Payments, { store: memoryStore() });
    await queue.emit('paid', { id: 1 }, { messageId: 'm1' });
    await queue.emit('paid', { id: 1 }, { messageId: 'm1' });
    await aside.holds(2);
    await queue.isEmpty();
    expect(runs).toBe(1);
  },
);
