import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyReconciler, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { useStores } from '../../support/http/combinations.js';
import type { Scenario } from '../../support/http/scenario.js';
import { Tally } from '../../support/waiting/tally.js';
import { useServer } from '../../support/servers/use-server.js';
import {
  InScenario,
  KnownCallers,
  payloadOf,
  socketCombinations,
  socketPlatforms,
  startSocketApp,
} from './support/socket-app.js';

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent({ duplicates: { mode: 'wait', timeout: 60_000 } })
  async pay(@InScenario() scenario: Scenario) {
    return { event: 'paid', data: await scenario.response() };
  }
}

const stores = useStores();

describe.each(socketCombinations)(
  'a client that disconnects, on $platform with $store',
  ({ platform, store }) => {
    /** Messages whose first `begin` has a reply; those that wait send more. */
    const begun = new Tally();

    const app = useServer(async () => {
      const counting = stores.fresh(store);
      const begin = counting.begin.bind(counting);
      const seen = new Set<unknown>();
      counting.begin = async (command) => {
        const reply = await begin(command);
        if (!seen.has(command.token)) begun.add();
        seen.add(command.token);
        return reply;
      };
      return startSocketApp({ platform, store: counting, gateways: [Payments] });
    });

    /** Its client has disconnected, and its handler waits at its gate. */
    async function leftInProgress(): Promise<Scenario> {
      const scenario = app.scenario();
      scenario.gate.close();
      const client = await app.connect('alice');
      client.send('pay', payloadOf(scenario));
      await scenario.started.reached(1);
      await client.close();
      return scenario;
    }

    it('does not abort the handler, and gets its response after reconnecting', async () => {
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

    it('no longer waits', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const [first, leaving] = [await app.connect('alice'), await app.connect('alice')];
      const response = first.ask('pay', payloadOf(scenario));
      await scenario.started.reached(1);
      const before = begun.count;
      leaving.send('pay', payloadOf(scenario));
      await begun.reached(before + 1);

      const waited = app.next('waited');
      await leaving.close();
      // The handler is still at its gate, so only the disconnect can have ended the wait.
      await waited;
      expect(scenario.passed.count).toBe(0);

      scenario.gate.open();
      expect(await response).toEqual({ event: 'paid', data: { execution: 1 } });
      expect(scenario.executions).toBe(1);
    });
  },
);

describe.each(socketCombinations)(
  'the shutdown on $platform with $store',
  ({ platform, store }) => {
    it('waits for the running handler, sends its response, and starts nothing more', async () => {
      const app = await startSocketApp({
        platform,
        store: stores.fresh(store),
        gateways: [Payments],
      });
      const running = app.scenario();
      running.gate.close();
      const [client, other] = await Promise.all([app.connect('alice'), app.connect('alice')]);
      const response = client.ask('pay', payloadOf(running));
      await running.started.reached(1);

      const closed = app.nest.close();
      let late = app.scenario();
      let rejection = await other.ask('pay', payloadOf(late));
      while (rejection.event === 'paid') {
        late = app.scenario();
        rejection = await other.ask('pay', payloadOf(late));
      }
      expect(rejection).toMatchObject({
        event: 'exception',
        data: { code: 'idempotency_shutting_down', retryAfterMs: 1_000 },
      });
      expect(late.executions).toBe(0);

      running.gate.open();
      expect(await response).toEqual({ event: 'paid', data: { execution: 1 } });
      await Promise.all([client.close(), other.close()]);
      await closed;
    });
  },
);

const LEASE_MS = 60_000;

/** The reconciler's default `after`, which leaves time for the client's retry. */
const AFTER_MS = 300_000;

/** The recorded payment of each key. */
const found = new Map<string, unknown>();

@WebSocketGateway()
class RecoveredPayments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent({
    lease: {
      duration: LEASE_MS,
      onTakeover: ({ key }) => (found.has(key) ? { value: found.get(key) } : 'run'),
    },
  })
  async pay(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    return { event: 'paid', data: { execution } };
  }
}

describe.each(socketPlatforms)('an expired lease, on %s', (platform) => {
  let now = Date.UTC(2026, 0, 1);

  const options = {
    platform,
    store: memoryStore({ now: () => now }),
    gateways: [RecoveredPayments],
  };
  /** Another process. `app` takes over its attempts. */
  const owner = useServer(() => startSocketApp(options));
  // Stops first, and opens the gates at which handlers of the other one may wait.
  const app = useServer(() => startSocketApp(options));

  async function outliveTheLease() {
    const scenario = app.scenario();
    scenario.gate.close();
    const client = await owner.connect('alice');
    const late = client.ask('pay', payloadOf(scenario));
    await scenario.started.reached(1);
    now += LEASE_MS;
    return { scenario, late, next: await app.connect('alice') };
  }

  it.each([
    ['the next attempt respond with what onTakeover finds', false],
    ['the reconciler store what onTakeover finds, as the response to every retry', true],
  ])('lets %s', async (_, isReconciled) => {
    const { scenario, late, next } = await outliveTheLease();
    found.set(scenario.key, { event: 'paid', data: 'found' });
    if (isReconciled) {
      now += AFTER_MS;
      const report = await app.nest.get(IdempotencyReconciler).reconcile();
      expect(report).toMatchObject({ completed: 1 });
    }
    const first = await next.ask('pay', payloadOf(scenario));
    expect(first).toEqual({ event: 'paid', data: 'found' });
    expect(await next.ask('pay', payloadOf(scenario))).toEqual(first);
    expect(scenario.executions).toBe(1);
    scenario.gate.open();
    await late;
  });
});
