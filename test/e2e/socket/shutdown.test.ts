import { describe, expect, it } from '@jest/globals';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Idempotent } from 'nestjs-idempotency';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp } from './support/socket-app.js';
import { socketCombinations } from './support/socket-platforms.js';

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent()
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.answer() };
  }
}

const stores = useStores();

describe.each(socketCombinations)(
  'the shutdown on $platform with $store',
  ({ platform, store }) => {
    it('waits for the running handler, tells its answer, and begins nothing more', async () => {
      const app = await startSocketApp({
        platform,
        store: stores.fresh(store),
        gateways: [Payments],
      });
      const running = app.scenario();
      running.gate.close();
      const [client, other] = await Promise.all([app.connect('alice'), app.connect('alice')]);
      const answer = client.ask('pay', payloadOf(running));
      await running.started.reached(1);

      const closed = app.nest.close();
      let late = app.scenario();
      let refusal = await other.ask('pay', payloadOf(late));
      while (refusal.event === 'paid') {
        late = app.scenario();
        refusal = await other.ask('pay', payloadOf(late));
      }
      expect(refusal).toMatchObject({
        event: 'exception',
        data: { code: 'idempotency_shutting_down', retryAfterMs: 1_000 },
      });
      expect(late.executions).toBe(0);

      running.gate.open();
      expect(await answer).toEqual({ event: 'paid', data: { execution: 1 } });
      await Promise.all([client.close(), other.close()]);
      await closed;
    });
  },
);
