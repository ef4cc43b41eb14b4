import {
  type ArgumentsHost,
  Catch,
  ClassSerializerInterceptor,
  type ExecutionContext,
  Injectable,
  Scope,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import {
  Ack,
  ConnectedSocket,
  MessageBody,
  SubscribeMessage,
  WebSocketGateway,
  WsException,
} from '@nestjs/websockets';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { payloadField } from 'nestjs-idempotency/message';
import { of } from 'rxjs';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  InScenario,
  KnownCallers,
  payloadOf,
  type SocketApp,
  socketPlatforms,
  startSocketApp,
  type StartSocketAppOptions,
} from './support/socket-app.js';
import type { SocketPlatform } from './support/socket-client.js';

/** Sends the error as the acknowledgement, so that the waiting client receives it. */
@Catch(WsException)
class AcknowledgeErrors {
  catch(error: WsException, host: ArgumentsHost): void {
    const ack = host.getArgs<unknown[]>().find((argument) => typeof argument === 'function');
    ack?.(error.getError());
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

  @UseFilters(AcknowledgeErrors)
  @SubscribeMessage('pay-acknowledging-errors')
  @Idempotent()
  payAcknowledgingErrors(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** A new instance for each connection. */
@Injectable({ scope: Scope.REQUEST })
@Idempotent()
@WebSocketGateway({ namespace: 'shop' })
class Shop extends KnownCallers {
  @SubscribeMessage('pay')
  pay(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @SubscribeMessage('refund')
  @Idempotent({ key: { required: false } })
  refund(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

describe('an acknowledgement', () => {
  const app = useServer(() =>
    startSocketApp({
      platform: 'socket.io',
      store: memoryStore(),
      gateways: [Payments, Shop],
    }),
  );

  it.each([0, '', false, 'text', [[1], { a: null }], { text: 'ä€😀' }, Buffer.from([0, 200, 255])])(
    'may be any JSON value, or bytes: %j',
    async (value) => {
      const scenario = app.scenario();
      scenario.notes.push(value);
      const client = await app.connectSocketIo('alice');
      expect(await client.acked('say', payloadOf(scenario))).toEqual(value);
      expect(await client.acked('say', payloadOf(scenario))).toEqual(value);
      expect(scenario.executions).toBe(1);
    },
  );

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
    expect(await client.acked('pay-acknowledging-errors', other)).toEqual({
      status: 'error',
      code: 'idempotency_key_reused',
      message: expect.any(String),
    });
    expect(scenario.executions).toBe(1);
  });

  it('is replayed in a namespace, from a request-scoped gateway that is protected as a class', async () => {
    const scenario = app.scenario();
    for (let connection = 0; connection < 2; connection += 1) {
      const client = await app.connectSocketIo('alice', { namespace: '/shop' });
      expect(await client.acked('pay', payloadOf(scenario))).toEqual({ execution: 1 });
    }
    expect(scenario.executions).toBe(1);
    const client = await app.connectSocketIo('alice', { namespace: '/shop' });
    const keyless = payloadOf(scenario, { idempotencyKey: undefined });
    expect(await client.ask('pay', keyless)).toMatchObject({
      data: { code: 'idempotency_key_missing' },
    });
    // The decorator of a method overrides that of the class.
    expect(await client.acked('refund', keyless)).toEqual({ execution: 2 });
  });
});

/** A test client names the members to set on its connection in its query. */
interface Connection {
  data?: object;
  request?: { url?: string };
}

@WebSocketGateway()
class CalledPayments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }

  @SubscribeMessage('refund')
  @Idempotent()
  async refund(@InScenario() scenario: Scenario) {
    return { event: 'refunded', data: await scenario.response() };
  }
}

/** The query is JSON: the members to set on the connection. */
@WebSocketGateway()
class NotedCallers {
  handleConnection(client: Connection, request = client.request): void {
    const as = new URL(request?.url ?? '', 'http://localhost').searchParams.get('as');
    const { request: handshake, ...members } = JSON.parse(as ?? '{}') as Connection;
    Object.assign(client, members);
    if (handshake === undefined) return;
    if (client.request === undefined) client.request = handshake;
    else Object.assign(client.request, handshake);
  }

  @SubscribeMessage('pay')
  @Idempotent({ operation: 'noted.pay' })
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }
}

describe.each(socketPlatforms)('the callers of a gateway on %s', (platform: SocketPlatform) => {
  const start = (
    gateway: StartSocketAppOptions['gateways'][number],
    options: StartSocketAppOptions['options'] = {},
  ) => startSocketApp({ platform, store: memoryStore(), gateways: [gateway], options });

  const app: SocketApp = useServer(() => start(CalledPayments));
  const noted: SocketApp = useServer(() => start(NotedCallers));

  it('get separate responses for the same key', async () => {
    const scenario = app.scenario();
    const [alice, bob] = [await app.connect('alice'), await app.connect('bob')];
    expect(await alice.ask('pay', payloadOf(scenario))).toMatchObject({ data: { execution: 1 } });
    expect(await bob.ask('pay', payloadOf(scenario))).toMatchObject({ data: { execution: 2 } });
    expect(await alice.ask('pay', payloadOf(scenario))).toMatchObject({ data: { execution: 1 } });
    // So do the handlers of one caller.
    expect(await alice.ask('refund', payloadOf(scenario))).toEqual({
      event: 'refunded',
      data: { execution: 3 },
    });
    expect(scenario.executions).toBe(3);
  });

  it.each([
    ['user', { user: { id: 'eve' } }],
    ['data.user', { data: { user: { id: 'eve' } } }],
    ['request.user', { request: { user: { id: 'eve' } } }],
    ['user, before data.user', { user: { id: 'eve' }, data: { user: { id: 'mallory' } } }],
  ])('are identified by client.%s', async (_, members) => {
    const scenario = noted.scenario();
    const eve = await noted.connect(JSON.stringify({ user: { id: 'eve' } }));
    await eve.ask('pay', payloadOf(scenario));
    const caller = await noted.connect(JSON.stringify(members));
    expect(await caller.ask('pay', payloadOf(scenario))).toEqual({
      event: 'paid',
      data: { execution: 1 },
    });
  });

  it('are rejected when they cannot be determined', async () => {
    const scenario = app.scenario();
    const stranger = await app.connect();
    expect(await stranger.ask('pay', payloadOf(scenario))).toMatchObject({
      event: 'exception',
      data: { status: 'error', code: 'idempotency_caller_unknown' },
    });
    expect(scenario.executions).toBe(0);
  });

  it('are the ones that the option "scope" returns', async () => {
    const scope = async (context: ExecutionContext) => [
      context.switchToWs().getData<{ tenant: string }>().tenant,
      'all',
    ];
    const scoped = await start(CalledPayments, {
      caller: { scope },
      fingerprint: { exclude: ['tenant'] },
    });
    const scenario = scoped.scenario();
    const client = await scoped.connect();
    const ask = (tenant?: string) => client.ask('pay', payloadOf(scenario, { tenant }));
    expect(await ask('acme')).toMatchObject({ data: { execution: 1 } });
    expect(await ask('other')).toMatchObject({ data: { execution: 2 } });
    expect(await ask('acme')).toMatchObject({ data: { execution: 1 } });
    // A part is missing, which is the application's mistake and no client's.
    expect(await ask()).toMatchObject({ data: { message: 'Internal server error' } });
    expect(scenario.executions).toBe(2);
    await scoped.close();
  });

  it("have one key for all operations with key.uniqueFor: 'principal'", async () => {
    const overall = await start(CalledPayments, { key: { uniqueFor: 'principal' } });
    const scenario = overall.scenario();
    const client = await overall.connect('alice');
    await client.ask('pay', payloadOf(scenario));
    expect(await client.ask('refund', payloadOf(scenario))).toMatchObject({
      data: { code: 'idempotency_key_reused' },
    });
    expect(scenario.executions).toBe(1);
    await overall.close();
  });
});

type Acknowledge = (response: unknown) => void;

@WebSocketGateway()
class AcknowledgesByDecorator {
  @SubscribeMessage('pay')
  @Idempotent()
  pay(@MessageBody() payload: unknown, @Ack() acknowledge: Acknowledge) {
    acknowledge(payload);
  }
}

class Acknowledging {
  @SubscribeMessage('pay')
  pay(@Ack() acknowledge: Acknowledge) {
    acknowledge('paid');
  }
}

@Idempotent()
@WebSocketGateway()
class InheritsAcknowledging extends Acknowledging {}

@WebSocketGateway()
class AcknowledgesByPosition {
  @SubscribeMessage('pay')
  @Idempotent()
  pay(_client: unknown, payload: unknown, acknowledge: Acknowledge) {
    acknowledge(payload);
  }
}

@WebSocketGateway()
class AcknowledgesUnprotected {
  @SubscribeMessage('pay')
  @Idempotent({ enabled: false })
  pay(@Ack() acknowledge: Acknowledge) {
    acknowledge('paid');
  }

  @SubscribeMessage('refund')
  refund(@Ack() acknowledge: Acknowledge) {
    acknowledge('refunded');
  }
}

@WebSocketGateway()
class NamesHeader {
  @SubscribeMessage('pay')
  @Idempotent({ key: 'orderId' })
  pay() {
    return 'paid';
  }
}

@WebSocketGateway()
class WellFormed {
  @SubscribeMessage('pay')
  @Idempotent({ key: payloadField('order.id'), caller: { anonymous: 'shared' } })
  async pay(@InScenario() scenario: Scenario, @ConnectedSocket() _client: unknown) {
    return { event: 'paid', data: await scenario.response() };
  }

  @SubscribeMessage('list')
  @Idempotent({ caller: { anonymous: 'shared' } })
  list(_client: unknown, { idempotencyKey }: { idempotencyKey: string }) {
    return { event: 'listed', data: idempotencyKey };
  }
}

@UseInterceptors(ClassSerializerInterceptor)
@WebSocketGateway()
class SerializesOutside {
  @SubscribeMessage('pay')
  @Idempotent()
  pay() {
    return 'paid';
  }
}

const start = (
  gateway: StartSocketAppOptions['gateways'][number],
  options: StartSocketAppOptions['options'] = {},
) => startSocketApp({ platform: 'socket.io', store: memoryStore(), gateways: [gateway], options });

describe('an application with a gateway', () => {
  const wellFormed = useServer(() => start(WellFormed, { key: 'X-Request-Id' }));

  it.each([AcknowledgesByDecorator, InheritsAcknowledging, AcknowledgesByPosition])(
    'does not start when a protected handler acknowledges itself: %p',
    async (gateway) => {
      const starting = start(gateway);
      await expect(starting).rejects.toThrow(IdempotencyOptionsError);
      await expect(starting).rejects.toThrow(
        `${gateway.name}.pay takes the callback of the acknowledgement itself`,
      );
    },
  );

  it('starts when a handler that acknowledges itself is unprotected', async () => {
    const app = await start(AcknowledgesUnprotected);
    const client = await app.connectSocketIo();
    expect(await client.acked('pay', {})).toBe('paid');
    expect(await client.acked('refund', {})).toBe('refunded');
    await app.close();
  });

  it('does not start when a handler takes its key from a header, because messages have none', async () => {
    await expect(start(NamesHeader)).rejects.toThrow(
      'The option "key" of NamesHeader.pay names a header',
    );
  });

  it('does not start when a serializer is outside of @Idempotent()', async () => {
    await expect(start(SerializesOutside)).rejects.toThrow(
      'SerializesOutside.pay returns its value to a ClassSerializerInterceptor',
    );
  });

  it('starts with another key header for HTTP, and reads the key of a message from its payload', async () => {
    const scenario = wellFormed.scenario();
    const client = await wellFormed.connect();
    const payment = { ...payloadOf(scenario), order: { id: scenario.key } };
    const first = await client.ask('pay', payment);
    expect(first).toEqual({ event: 'paid', data: { execution: 1 } });
    expect(await client.ask('pay', payment)).toEqual(first);
    // The whole payload is compared: its member of this name is no key here.
    expect(await client.ask('pay', { ...payment, idempotencyKey: 'any' })).toMatchObject({
      data: { code: 'idempotency_key_reused' },
    });
    expect(await client.ask('list', { idempotencyKey: 'k' })).toEqual({
      event: 'listed',
      data: 'k',
    });
    expect(scenario.executions).toBe(1);
  });
});
