import { describe, expect, it } from '@jest/globals';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { IdempotencyReconciler, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Scenario } from '../../support/http/scenario.js';
import { useServer } from '../../support/servers/use-server.js';
import { InScenario, payloadOf } from './support/in-scenario.js';
import { KnownCallers } from './support/known-callers.js';
import { startSocketApp } from './support/socket-app.js';
import { socketPlatforms } from './support/socket-platforms.js';

const LEASE_MS = 60_000;

/** The reconciler's default `afterMs`, which leaves time for the client's retry. */
const AFTER_MS = 300_000;

/** The recorded payment of each key. */
const found = new Map<string, unknown>();

@WebSocketGateway()
class Payments extends KnownCallers {
  @SubscribeMessage('pay')
  @Idempotent({
    lease: {
      durationMs: LEASE_MS,
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
    gateways: [Payments],
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

  it('lets the next attempt respond with what onTakeover finds', async () => {
    const { scenario, late, next } = await outliveTheLease();
    found.set(scenario.key, { event: 'paid', data: 'found' });
    const first = await next.ask('pay', payloadOf(scenario));
    expect(first).toEqual({ event: 'paid', data: 'found' });
    expect(await next.ask('pay', payloadOf(scenario))).toEqual(first);
    expect(scenario.executions).toBe(1);
    scenario.gate.open();
    await late;
  });

  it('lets the reconciler store what onTakeover finds, as the response to every retry', async () => {
    const { scenario, late, next } = await outliveTheLease();
    found.set(scenario.key, { event: 'paid', data: 'found' });
    now += AFTER_MS;
    const report = await app.nest.get(IdempotencyReconciler).reconcile();
    expect(report).toMatchObject({ completed: 1 });
    expect(await next.ask('pay', payloadOf(scenario))).toEqual({
      event: 'paid',
      data: 'found',
    });
    expect(scenario.executions).toBe(1);
    scenario.gate.open();
    await late;
  });
});
