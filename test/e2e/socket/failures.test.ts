import { describe, expect, it } from '@jest/globals';
import { ParseIntPipe } from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { concat, of, throwError } from 'rxjs';
import { Idempotent } from 'nestjs-idempotency';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp } from './support/socket-app.js';
import { socketCombinations } from './support/socket-platforms.js';

class Declined extends WsException {}

/** Fails as the scenario's plan says, and reports its execution. */
async function follow(scenario: Scenario) {
  const execution = await scenario.run();
  switch (scenario.planned(execution)) {
    case 'decline':
      throw new Declined({ status: 'error', code: 'card_declined', execution });
    case 'decline in words':
      throw new WsException(`declined, execution ${execution}`);
    case 'break':
      throw new Error(`execution ${execution}`);
    default:
      return { event: 'paid', data: { execution } };
  }
}

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent()
  pay(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @SubscribeMessage('pay-once-and-for-all')
  @Idempotent({ outcome: () => true })
  payOnceAndForAll(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @SubscribeMessage('pay-unless-declined')
  @Idempotent({ outcome: ({ error }) => error === undefined || error instanceof WsException })
  payUnlessDeclined(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @SubscribeMessage('begin-and-fail')
  @Idempotent()
  async beginAndFail(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return concat(
      of({ event: 'begun', data: execution }),
      scenario.planned(execution) === 'break'
        ? throwError(() => new WsException({ execution }))
        : of({ event: 'paid', data: execution }),
    );
  }

  @SubscribeMessage('pay-a-number')
  @Idempotent({ outcome: () => true })
  async payANumber(
    @InScenario() scenario: Scenario,
    @MessageBody('count', ParseIntPipe) count: number,
  ) {
    await scenario.run();
    return { event: 'paid', data: count };
  }
}

const stores = useStores();

describe.each(socketCombinations)(
  'a handler that fails on $platform with $store',
  ({ platform, store }) => {
    const app = useServer(() =>
      startSocketApp({ platform, store: stores.fresh(store), gateways: [Payments] }),
    );

    it('runs again at once, because failures are not kept by default', async () => {
      const scenario = app.scenario();
      scenario.plan = ['decline', 'break'];
      const client = await app.connect('alice');
      const ask = () => client.ask('pay', payloadOf(scenario));
      expect(await ask()).toEqual({
        event: 'exception',
        data: { status: 'error', code: 'card_declined', execution: 1 },
      });
      expect(await ask()).toMatchObject({
        event: 'exception',
        data: { status: 'error', message: 'Internal server error' },
      });
      expect(await ask()).toEqual({ event: 'paid', data: { execution: 3 } });
      expect(await ask()).toEqual({ event: 'paid', data: { execution: 3 } });
      expect(scenario.executions).toBe(3);
    });

    it.each(['pay-once-and-for-all', 'pay-unless-declined'])(
      'fails in the same way for every retry when its WsException is kept: %s',
      async (event) => {
        const scenario = app.scenario();
        scenario.plan = ['decline'];
        const client = await app.connect('alice');
        const first = await client.ask(event, payloadOf(scenario));
        expect(first.data).toEqual({ status: 'error', code: 'card_declined', execution: 1 });
        expect(await client.ask(event, payloadOf(scenario))).toEqual(first);
        expect(scenario.executions).toBe(1);
      },
    );

    it('replays a message that was thrown as a string', async () => {
      const scenario = app.scenario();
      scenario.plan = ['decline in words'];
      const client = await app.connect('alice');
      const first = await client.ask('pay-unless-declined', payloadOf(scenario));
      expect(first.data).toMatchObject({ status: 'error', message: 'declined, execution 1' });
      expect(await client.ask('pay-unless-declined', payloadOf(scenario))).toEqual(first);
      expect(scenario.executions).toBe(1);
    });

    it('replays only the generic message of an internal error', async () => {
      const scenario = app.scenario();
      scenario.plan = ['break'];
      const client = await app.connect('alice');
      const first = await client.ask('pay-once-and-for-all', payloadOf(scenario));
      expect(first.data).toMatchObject({ status: 'error', message: 'Internal server error' });
      expect(await client.ask('pay-once-and-for-all', payloadOf(scenario))).toEqual(first);
      expect(scenario.executions).toBe(1);
    });

    it('emits nothing when its Observable fails halfway', async () => {
      const scenario = app.scenario();
      scenario.plan = ['break'];
      const client = await app.connect('alice');
      expect(await client.ask('begin-and-fail', payloadOf(scenario))).toEqual({
        event: 'exception',
        data: { execution: 1 },
      });
      expect(await client.ask('begin-and-fail', payloadOf(scenario))).toEqual({
        event: 'begun',
        data: 2,
      });
      expect(await client.next()).toEqual({ event: 'paid', data: 2 });
    });

    it('leaves the key to the corrected message when a pipe has rejected the first one', async () => {
      const scenario = app.scenario();
      const client = await app.connect('alice');
      const wrong = await client.ask('pay-a-number', payloadOf(scenario, { count: 'many' }));
      expect(wrong).toMatchObject({ event: 'exception' });
      expect(await client.ask('pay-a-number', payloadOf(scenario, { count: '3' }))).toEqual({
        event: 'paid',
        data: 3,
      });
      expect(scenario.executions).toBe(1);
    });
  },
);
