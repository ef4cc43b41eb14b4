import { Controller, HttpException, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { currentIdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

const LEASE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Its first execution is held at the gate; whoever comes later passes. */
async function holdTheFirst(scenario: Scenario): Promise<{ execution: number }> {
  const execution = scenario.started.add();
  scenario.notes.push({ ...currentIdempotencyContext() });
  if (execution === 1) await scenario.gate.pass();
  return { execution };
}

@Controller()
class TakeoverController {
  @Post('runs-again')
  @Idempotent({ leaseMs: LEASE_MS })
  runsAgain(@InScenario() scenario: Scenario) {
    return holdTheFirst(scenario);
  }

  @Post('never-repeats')
  @Idempotent({ leaseMs: LEASE_MS, onTakeover: 'reject' })
  neverRepeats(@InScenario() scenario: Scenario) {
    return holdTheFirst(scenario);
  }
}

@Controller()
class RetentionController {
  @Post('a-day')
  @Idempotent()
  aDay(@InScenario() scenario: Scenario) {
    return scenario.answer();
  }

  @Post('failures-shorter')
  @Idempotent({ retentionMs: ({ state }) => (state === 'failed' ? 1_000 : DAY_MS) })
  async failuresShorter(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new HttpException({ execution }, 404);
    return { execution };
  }
}

describe.each(platforms)('retention on %s, by the store’s clock', (platform) => {
  let now = Date.UTC(2026, 0, 1);
  let app: TestApp;

  beforeAll(async () => {
    const store = memoryStore({ now: () => now });
    app = await startApp({ platform, store, controllers: [RetentionController] });
  });

  afterAll(() => app.close());

  it('C80 after the retention the key is new', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/a-day');
    now += DAY_MS - 1;
    expectReplay(await scenario.post('/a-day'), first);
    now += 1;
    const second = await scenario.post('/a-day');
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    expectReplay(await scenario.post('/a-day'), second);
  });

  it('C80 retentionMs may depend on the outcome', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail', 'succeed'];
    const failure = await scenario.post('/failures-shorter');
    expect(failure.status).toBe(404);
    now += 999;
    expectReplay(await scenario.post('/failures-shorter'), failure);
    now += 1;
    const success = await scenario.post('/failures-shorter');
    expect(success).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    now += 1_000;
    expectReplay(await scenario.post('/failures-shorter'), success);
  });

  it('C82 refused requests do not prolong it', async () => {
    const scenario = app.scenario();
    await scenario.post('/a-day');
    now += DAY_MS - 1;
    expectProblem(await scenario.post('/a-day', { json: { other: true } }), 'key-reused');
    now += 1;
    expect((await scenario.post('/a-day')).json).toEqual({ execution: 2 });
  });
});

describe.each(platforms)('a lease that ran out on %s, by the store’s clock', (platform) => {
  let now = Date.UTC(2026, 0, 1);
  let app: TestApp;
  /** Another process, whose attempts the ones of `app` take over. */
  let owner: TestApp;

  beforeAll(async () => {
    const options = {
      platform,
      store: memoryStore({ now: () => now }),
      controllers: [TakeoverController],
    };
    [app, owner] = [await startApp(options), await startApp(options)];
  });

  afterAll(() => Promise.all([app.close(), owner.close()]));

  async function outliveTheLease(path: string) {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', path, { port: owner.port });
    await scenario.started.reached(1);
    now += LEASE_MS - 1;
    expectProblem(await scenario.post(path), 'in-progress');
    now += 1;
    return { scenario, pending };
  }

  it('C60a the key is free again, and the next attempt knows that it takes over', async () => {
    const { scenario, pending } = await outliveTheLease('/runs-again');
    const second = await scenario.post('/runs-again');
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    const [first, taker] = scenario.notes;
    expect(first).toMatchObject({ attempt: 1, isTakeover: false });
    expect(taker).toMatchObject({ attempt: 2, isTakeover: true });
    expect(taker.fencingToken).toBeGreaterThan(first.fencingToken);
    scenario.gate.open();
    await pending.response;
  });

  it('C60b the late owner overwrites nothing, and its client gets the outcome that stands', async () => {
    const { scenario, pending } = await outliveTheLease('/runs-again');
    const second = await scenario.post('/runs-again');
    scenario.gate.open();
    const late = await pending.response;
    expect(late).toMatchObject({ status: 201, json: { execution: 2 } });
    expectReplay(await scenario.post('/runs-again'), second);
    expect(scenario.executions).toBe(2);
  });

  it("C60a with onTakeover: 'reject' nothing runs again, and the late owner may still complete", async () => {
    const { scenario, pending } = await outliveTheLease('/never-repeats');
    expectProblem(await scenario.post('/never-repeats'), 'outcome-unknown');
    scenario.gate.open();
    const first = await pending.response;
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expectReplay(await scenario.post('/never-repeats'), first);
    expect(scenario.executions).toBe(1);
  });

  it.each(['/runs-again', '/never-repeats'])(
    'C60a %s is in progress still in the process that runs it',
    async (path) => {
      const { scenario, pending } = await outliveTheLease(path);
      expectProblem(await scenario.post(path, { port: owner.port }), 'in-progress');
      scenario.gate.open();
      expectReplay(await scenario.post(path), await pending.response);
      expect(scenario.executions).toBe(1);
    },
  );
});
