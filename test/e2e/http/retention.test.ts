import { Controller, HttpException, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

const DAY_MS = 86_400_000;

@Controller()
class RetentionController {
  @Post('a-day')
  @Idempotent()
  async aDay(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('two-seconds')
  @Idempotent({ retentionMs: 2_000 })
  async twoSeconds(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
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
    app = await startApp({
      platform,
      store: memoryStore({ now: () => now }),
      controllers: [RetentionController],
    });
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

  it('C80 retentionMs sets another time', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/two-seconds');
    now += 1_999;
    expectReplay(await scenario.post('/two-seconds'), first);
    now += 1;
    expect(await scenario.post('/two-seconds')).toMatchObject({
      replayed: false,
      json: { execution: 2 },
    });
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

  it('C81 after the retention the key is new for another payload too', async () => {
    const scenario = app.scenario();
    await scenario.post('/two-seconds', { json: { a: 1 } });
    expectProblem(await scenario.post('/two-seconds', { json: { a: 2 } }), 'key-reused');
    now += 2_000;
    const second = await scenario.post('/two-seconds', { json: { a: 2 } });
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  it('C82 replays do not prolong the retention', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/two-seconds');
    for (let times = 0; times < 3; times += 1) {
      now += 600;
      expectReplay(await scenario.post('/two-seconds'), first);
    }
    now += 200;
    expect(await scenario.post('/two-seconds')).toMatchObject({
      replayed: false,
      json: { execution: 2 },
    });
  });

  it('C82 neither do refused requests', async () => {
    const scenario = app.scenario();
    await scenario.post('/two-seconds');
    now += 1_999;
    expectProblem(await scenario.post('/two-seconds', { json: { other: true } }), 'key-reused');
    now += 1;
    expect(await scenario.post('/two-seconds')).toMatchObject({
      replayed: false,
      json: { execution: 2 },
    });
  });

  it('C82a the clock starts at completion, and an attempt in progress does not expire', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/two-seconds');
    await scenario.started.reached(1);
    now += 5_000;
    expectProblem(await scenario.post('/two-seconds'), 'in-progress');
    scenario.gate.open();
    const first = await pending.response;
    now += 1_999;
    expectReplay(await scenario.post('/two-seconds'), first);
    now += 1;
    expect(await scenario.post('/two-seconds')).toMatchObject({
      replayed: false,
      json: { execution: 2 },
    });
  });
});
