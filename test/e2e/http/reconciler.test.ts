import { Controller, Injectable, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent, IdempotencyReconciler, type Recover } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { expectProblem } from '../../support/http/expect-problem.js';
import { platforms } from '../../support/http/combinations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

const LEASE_MS = 60_000;
const AFTER_MS = 300_000;

@Injectable()
class Payments {
  readonly paid = new Set<string>();
}

const look: Recover = ({ key }, services) =>
  services.get(Payments).paid.has(key) ? { value: { secret: 'of the table' } } : 'run';

@Controller()
class PaymentsController {
  @Post('payments')
  @Idempotent({ leaseMs: LEASE_MS, onTakeover: look })
  async pay(@InScenario() scenario: Scenario) {
    const execution = scenario.started.add();
    // The first one never comes back.
    if (execution === 1) await scenario.gate.pass();
    return { execution };
  }
}

describe.each(platforms)('A payment that was left behind, on %s', (platform) => {
  let now = Date.UTC(2026, 0, 1);
  let app: TestApp;
  /** Another process, whose attempts the reconciler of `app` finds. */
  let owner: TestApp;
  let reconciler: IdempotencyReconciler;
  let paid: Set<string>;

  beforeAll(async () => {
    const options = {
      platform,
      store: memoryStore({ now: () => now }),
      controllers: [PaymentsController],
      providers: [Payments],
    };
    [app, owner] = [await startApp(options), await startApp(options)];
    reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    ({ paid } = app.nest.get(Payments));
  });
  afterAll(() => Promise.all([app.close(), owner.close()]));

  async function leftBehind() {
    const scenario = app.scenario();
    scenario.gate.close();
    const first = scenario.start('POST', '/payments', { json: {}, port: owner.port });
    first.response.catch(() => undefined);
    await scenario.started.reached(1);
    now += LEASE_MS + AFTER_MS;
    return { scenario, first };
  }

  it('is never made again once it was found, and its answer is not made up', async () => {
    const { scenario } = await leftBehind();
    paid.add(scenario.key);
    expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
    const again = await scenario.post('/payments', { json: {} });
    expectProblem(again, 'response-not-kept');
    expect(again.body.toString()).not.toContain('of the table');
    expect(scenario.executions).toBe(1);
  });

  it('runs at once where nothing was found, and is told that it is a takeover', async () => {
    const { scenario } = await leftBehind();
    expect(await reconciler.reconcile()).toMatchObject({ released: 1 });
    const again = await scenario.post('/payments', { json: {} });
    expect(again).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  it('gives way to the owner that comes back after it was found: everybody is told the same', async () => {
    const { scenario, first } = await leftBehind();
    paid.add(scenario.key);
    expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });
    scenario.gate.open();
    expectProblem(await first.response, 'response-not-kept');
    expectProblem(await scenario.post('/payments', { json: {} }), 'response-not-kept');
  });
});
