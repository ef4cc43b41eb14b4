import { describe, expect, it } from '@jest/globals';
import { Body, Controller, Injectable, Post, Scope } from '@nestjs/common';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Idempotent } from 'nestjs-idempotency';
import { useStores } from '../../support/http/combinations.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario as InHttpScenario, type Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp } from './support/socket-app.js';
import { socketCombinations } from './support/socket-platforms.js';

@Injectable()
class Till {
  take(scenario: Scenario) {
    return scenario.response();
  }
}

@Controller('payments')
class PaymentsController {
  constructor(private readonly till: Till) {}

  @Post()
  @Idempotent()
  pay(@InHttpScenario() scenario: Scenario, @Body() _: object) {
    return this.till.take(scenario);
  }
}

/** @Idempotent() protects the class. */
@Idempotent()
@WebSocketGateway()
class PaymentsGateway extends KnownCallers {
  constructor(private readonly till: Till) {
    super();
  }

  @SubscribeMessage('pay')
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await this.till.take(scenario) };
  }

  @SubscribeMessage('refund')
  @Idempotent({ key: { required: false } })
  async refund(@InScenario() scenario: Scenario) {
    return { event: 'refunded', data: await this.till.take(scenario) };
  }
}

/** A new instance for each connection. */
@Injectable({ scope: Scope.REQUEST })
@WebSocketGateway({ namespace: 'shop' })
class ShopGateway extends KnownCallers {
  constructor(private readonly till: Till) {
    super();
  }

  @SubscribeMessage('pay')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    return this.till.take(scenario);
  }
}

const stores = useStores();

describe.each(socketCombinations)(
  'HTTP and a gateway on $platform in one application with $store',
  ({ platform, store }) => {
    const app = useServer(() =>
      startSocketApp({
        platform,
        store: stores.fresh(store),
        controllers: [PaymentsController],
        // Only socket.io's adapter supports namespaces.
        gateways: [Till, PaymentsGateway, ...(platform === 'socket.io' ? [ShopGateway] : [])],
      }),
    );

    it('keep separate operations and outcomes, also under one key', async () => {
      const scenario = app.scenario();
      const client = await app.connect('alice');
      const response = await scenario.post('/payments', { json: { amount: 1200 } });
      expect(response).toMatchObject({ status: 201, json: { execution: 1 } });
      const paid = await client.ask('pay', payloadOf(scenario));
      expect(paid).toEqual({ event: 'paid', data: { execution: 2 } });

      expectReplay(await scenario.post('/payments', { json: { amount: 1200 } }), response);
      expect(await client.ask('pay', payloadOf(scenario))).toEqual(paid);
      expect(scenario.executions).toBe(2);
    });

    it('are protected by the decorator of the class, which that of a method overrides', async () => {
      const scenario = app.scenario();
      const client = await app.connect('alice');
      const keyless = payloadOf(scenario, { idempotencyKey: undefined });
      expect(await client.ask('pay', keyless)).toMatchObject({
        data: { code: 'idempotency_key_missing' },
      });
      expect(await client.ask('refund', keyless)).toMatchObject({ event: 'refunded' });
    });

    if (platform === 'socket.io') {
      it('replay in a namespace, from a request-scoped gateway', async () => {
        const scenario = app.scenario();
        for (let connection = 0; connection < 2; connection += 1) {
          const client = await app.connectSocketIo('alice', { namespace: '/shop' });
          expect(await client.acked('pay', payloadOf(scenario))).toEqual({ execution: 1 });
        }
        expect(scenario.executions).toBe(1);
      });
    }
  },
);
