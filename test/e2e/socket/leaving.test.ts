import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Idempotent } from 'nestjs-idempotency';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import { Tally } from '../../support/http/tally.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp, type SocketApp } from './support/socket-app.js';
import { socketCombinations } from './support/socket-platforms.js';

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent({ whenInProgress: 'wait', waitTimeoutMs: 60_000 })
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.answer() };
  }
}

const stores = useStores();

describe.each(socketCombinations)(
  'a client that leaves, on $platform with $store',
  ({ platform, store }) => {
    let app: SocketApp;
    /** Messages whose first begin the store has answered; who waits, asks again. */
    const begun = new Tally();

    beforeAll(async () => {
      const counting = stores.fresh(store);
      const begin = counting.begin.bind(counting);
      const seen = new Set<unknown>();
      counting.begin = async (command) => {
        const reply = await begin(command);
        if (!seen.has(command.token)) begun.add();
        seen.add(command.token);
        return reply;
      };
      app = await startSocketApp({ platform, store: counting, gateways: [Payments] });
    });

    afterAll(() => app.close());

    /** Its client has left, and its handler is at its gate. */
    async function leftInProgress(): Promise<Scenario> {
      const scenario = app.scenario();
      scenario.gate.close();
      const client = await app.connect('alice');
      client.send('pay', payloadOf(scenario));
      await scenario.started.reached(1);
      await client.close();
      return scenario;
    }

    it('does not abort the handler, and gets its answer when it comes back', async () => {
      const scenario = await leftInProgress();
      const completed = app.next('completed');
      scenario.gate.open();
      await completed;
      const after = await app.connect('alice');
      expect(await after.ask('pay', payloadOf(scenario))).toEqual({
        event: 'paid',
        data: { execution: 1 },
      });
      expect(scenario.executions).toBe(1);
    });

    it('gets the answer also when it is back before the handler is done', async () => {
      const scenario = await leftInProgress();
      const after = await app.connect('alice');
      const answer = after.ask('pay', payloadOf(scenario));
      scenario.gate.open();
      expect(await answer).toEqual({ event: 'paid', data: { execution: 1 } });
      expect(scenario.executions).toBe(1);
    });

    it('is no longer waited for, while others go on waiting', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const [first, leaving, staying] = await Promise.all([
        app.connect('alice'),
        app.connect('alice'),
        app.connect('alice'),
      ]);
      const answer = first.ask('pay', payloadOf(scenario));
      await scenario.started.reached(1);
      const before = begun.count;
      const stayed = staying.ask('pay', payloadOf(scenario));
      leaving.send('pay', payloadOf(scenario));
      await begun.reached(before + 2);

      const waited = app.next('waited');
      await leaving.close();
      // The handler is still at its gate: nothing but the client's leaving can have ended that.
      await waited;
      expect(scenario.passed.count).toBe(0);

      scenario.gate.open();
      expect(await answer).toEqual({ event: 'paid', data: { execution: 1 } });
      expect(await stayed).toEqual({ event: 'paid', data: { execution: 1 } });
      expect(scenario.executions).toBe(1);
    });
  },
);
