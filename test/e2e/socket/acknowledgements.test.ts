import { describe, expect, it } from '@jest/globals';
import {
  Catch,
  ClassSerializerInterceptor,
  UseFilters,
  UseInterceptors,
  type ArgumentsHost,
} from '@nestjs/common';
import { SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { Exclude } from 'class-transformer';
import { of } from 'rxjs';
import { Idempotent } from 'nestjs-idempotency';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp } from './support/socket-app.js';

/** Sends the error as the acknowledgement, so that the waiting client receives it. */
@Catch(WsException)
class AcknowledgeErrors {
  catch(error: WsException, host: ArgumentsHost): void {
    const ack = host.getArgs<unknown[]>().find((argument) => typeof argument === 'function');
    ack?.(error.getError());
  }
}

class Card {
  @Exclude()
  readonly number: string;

  constructor(
    readonly last4: string,
    number: string,
  ) {
    this.number = number;
  }
}

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent()
  pay(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @SubscribeMessage('say')
  @Idempotent()
  async say(@InScenario() scenario: Scenario) {
    await scenario.run();
    return scenario.notes[0];
  }

  @SubscribeMessage('say-two')
  @Idempotent()
  async sayTwo(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return of({ event: 'accepted', data: execution }, { execution }, 'too late');
  }

  @UseInterceptors(ClassSerializerInterceptor)
  @SubscribeMessage('show-card')
  @Idempotent()
  async showCard(@InScenario() scenario: Scenario) {
    await scenario.run();
    return new Card('4242', '4242424242424242');
  }

  @UseFilters(AcknowledgeErrors)
  @SubscribeMessage('pay-acknowledging-errors')
  @Idempotent()
  payAcknowledgingErrors(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const stores = useStores();

describe.each(['memory', 'redis'] as const)('an acknowledgement with %s', (store) => {
  const app = useServer(() =>
    startSocketApp({
      platform: 'socket.io',
      store: stores.fresh(store),
      gateways: [Payments],
    }),
  );

  it('is the same for every retry', async () => {
    const scenario = app.scenario();
    const client = await app.connectSocketIo('alice');
    const first = await client.acked('pay', payloadOf(scenario));
    expect(first).toEqual({ execution: 1 });
    expect(await client.acked('pay', payloadOf(scenario))).toEqual(first);
    expect(scenario.executions).toBe(1);
  });

  it.each([0, '', false, 'text', [[1], { a: null }], { text: 'ä€😀' }])(
    'may be any JSON value: %j',
    async (value) => {
      const scenario = app.scenario();
      scenario.notes.push(value);
      const client = await app.connectSocketIo('alice');
      expect(await client.acked('say', payloadOf(scenario))).toEqual(value);
      expect(await client.acked('say', payloadOf(scenario))).toEqual(value);
      expect(scenario.executions).toBe(1);
    },
  );

  it('may be bytes', async () => {
    const scenario = app.scenario();
    scenario.notes.push(Buffer.from([0, 200, 255]));
    const client = await app.connectSocketIo('alice');
    const first = await client.acked('say', payloadOf(scenario));
    const second = await client.acked('say', payloadOf(scenario));
    expect([...first]).toEqual([0, 200, 255]);
    expect([...second]).toEqual([0, 200, 255]);
    expect(scenario.executions).toBe(1);
  });

  it('never contains members that an inner serializer excludes', async () => {
    const scenario = app.scenario();
    const client = await app.connectSocketIo('alice');
    for (let time = 0; time < 2; time += 1) {
      expect(await client.acked('show-card', payloadOf(scenario))).toEqual({ last4: '4242' });
    }
    expect(scenario.executions).toBe(1);
  });

  it('is replayed together with the events that the handler emitted', async () => {
    const scenario = app.scenario();
    const client = await app.connectSocketIo('alice');
    for (let time = 0; time < 2; time += 1) {
      expect(await client.acked('say-two', payloadOf(scenario))).toEqual({ execution: 1 });
      expect(await client.next()).toEqual({ event: 'accepted', data: 1 });
    }
    expect(scenario.executions).toBe(1);
  });

  it('reaches a client that lost its connection and sent the message again', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const client = await app.connectSocketIo('alice', {
      reconnection: true,
      reconnectionDelay: 1,
      retries: 3,
      ackTimeout: 10_000,
    });
    const { socket } = client;
    const firstId = socket.id;
    const completed = app.next('completed');
    const response = client.acked('pay', payloadOf(scenario));
    await scenario.started.reached(1);
    const reconnected = new Promise<void>((resolve) => socket.once('connect', resolve));
    socket.once('disconnect', () => scenario.gate.open());
    socket.io.engine.transport.close();
    await reconnected;
    await completed;
    expect(socket.id).not.toBe(firstId);
    expect(await response).toEqual({ execution: 1 });
    expect(scenario.executions).toBe(1);
  });

  it('can carry a rejection, through an exception filter of the application', async () => {
    const scenario = app.scenario();
    const client = await app.connectSocketIo('alice');
    await client.acked('pay-acknowledging-errors', payloadOf(scenario));
    const other = payloadOf(scenario, { amount: 1 });
    expect(await client.acked('pay-acknowledging-errors', other)).toMatchObject({
      status: 'error',
      code: 'idempotency_key_reused',
    });
    expect(scenario.executions).toBe(1);
  });
});
