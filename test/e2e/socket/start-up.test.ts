import { describe, expect, it } from '@jest/globals';
import {
  Ack,
  ConnectedSocket,
  MessageBody,
  SubscribeMessage,
  WebSocketGateway,
} from '@nestjs/websockets';
import { Idempotent, IdempotencyOptionsError } from 'nestjs-idempotency';
import { payloadField } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import { InScenario, payloadOf } from './support/in-scenario.js';
import type { Scenario } from '../../support/http/scenario.js';
import { startSocketApp, type StartSocketAppOptions } from './support/socket-app.js';

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

@Idempotent({ operation: 'same' })
@WebSocketGateway()
class SharesItsName {
  @SubscribeMessage('pay')
  pay() {
    return 'paid';
  }

  @SubscribeMessage('refund')
  refund() {
    return 'refunded';
  }
}

const start = (
  gateway: StartSocketAppOptions['gateways'][number],
  options: StartSocketAppOptions['options'] = {},
) => startSocketApp({ platform: 'socket.io', store: memoryStore(), gateways: [gateway], options });

describe('an application with a gateway', () => {
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

  it('does not start with two operations of one name', async () => {
    await expect(start(SharesItsName)).rejects.toThrow('Two operations are named "same"');
  });

  it('starts with another key header for HTTP, and reads the key of a message from its payload', async () => {
    const app = await start(WellFormed, { key: 'X-Request-Id' });
    const scenario = app.scenario();
    const client = await app.connect();
    const payment = { ...payloadOf(scenario), order: { id: scenario.key } };
    const first = await client.ask('pay', payment);
    expect(first).toEqual({ event: 'paid', data: { execution: 1 } });
    expect(await client.ask('pay', payment)).toEqual(first);
    expect(await client.ask('list', { idempotencyKey: 'k' })).toEqual({
      event: 'listed',
      data: 'k',
    });
    expect(scenario.executions).toBe(1);
    await app.close();
  });
});
