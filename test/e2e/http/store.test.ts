import { Controller, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { START_HOOK_MS } from '../../support/start-patience.js';

@Controller()
class StoreController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('optional')
  @Idempotent({ required: false })
  async optional(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('fail-open')
  @Idempotent({ onStoreUnavailable: 'execute' })
  async failOpen(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('strictly-saved')
  @Idempotent({ onSaveFailure: 'error' })
  async strictlySaved(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

const QUICK = { commandTimeoutMs: 150, saveTimeoutMs: 250, shutdownTimeoutMs: 200 };

describe.each(platforms)('a Redis that fails under %s', (platform) => {
  let redis: RedisServer;
  let app: TestApp;

  beforeAll(async () => {
    redis = await startRedis();
    app = await startApp({
      platform,
      store: redisStore({ url: redis.url }),
      controllers: [StoreController],
      options: QUICK,
    });
  }, START_HOOK_MS);

  afterAll(async () => {
    redis.kill('SIGCONT');
    await app.close();
    await redis.stop();
  });

  /** Runs `during` while the server neither answers nor closes a connection. */
  async function whileRedisHangs(during: () => Promise<void>) {
    redis.kill('SIGSTOP');
    try {
      await during();
    } finally {
      redis.kill('SIGCONT');
    }
  }

  it('C87 while the store does not answer nothing executes: 503, and the key is free afterwards', async () => {
    const scenario = app.scenario();
    await whileRedisHangs(async () => {
      expectProblem(await scenario.post('/things'), 'store-unavailable');
      expectProblem(await scenario.post('/things'), 'store-unavailable');
    });
    expect(scenario.executions).toBe(0);
    const first = await untilNot([503, 409], () => scenario.post('/things'));
    expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expectReplay(await scenario.post('/things'), first);
  });

  it('C87a a store that fails after the handler does not take the answer away, and is told later', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/things');
    await scenario.started.reached(1);
    await whileRedisHangs(async () => {
      scenario.gate.open();
      expect(await pending.response).toMatchObject({
        status: 201,
        replayed: false,
        json: { execution: 1 },
      });
    });
    const second = await untilNot([503, 409], () => scenario.post('/things'));
    expectReplay(second, await pending.response);
    expect(scenario.executions).toBe(1);
  });

  it("C87a with onSaveFailure: 'error' the client is told that the store failed, and the effect is kept", async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/strictly-saved');
    await scenario.started.reached(1);
    await whileRedisHangs(async () => {
      scenario.gate.open();
      expectProblem(await pending.response, 'store-unavailable');
    });
    const second = await untilNot([503, 409], () => scenario.post('/strictly-saved'));
    expect(second).toMatchObject({ status: 201, replayed: true, json: { execution: 1 } });
    expect(scenario.executions).toBe(1);
  });
});

describe.each(platforms)('a Redis that is gone under %s', (platform) => {
  let redis: RedisServer;
  let app: TestApp;

  beforeAll(async () => {
    redis = await startRedis();
    app = await startApp({
      platform,
      store: redisStore({ url: redis.url }),
      controllers: [StoreController],
      options: QUICK,
    });
    expect((await app.scenario().post('/things')).status).toBe(201);
    await redis.stop();
  }, START_HOOK_MS);

  afterAll(() => app.close());

  it('C87 a request with a key gets 503 and does not execute', async () => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/things'), 'store-unavailable');
    expectProblem(await scenario.post('/optional'), 'store-unavailable');
    expect(scenario.executions).toBe(0);
  });

  it("C87 with onStoreUnavailable: 'execute' the operation runs, and the answer says that it was unprotected", async () => {
    const scenario = app.scenario();
    const response = await scenario.post('/fail-open');
    expect(response).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
    expect(response.header('idempotency-status')).toBe('unprotected');
  });
});

async function untilNot<T extends { readonly status: number }>(
  statuses: number[],
  ask: () => Promise<T>,
) {
  let answer = await ask();
  while (statuses.includes(answer.status)) answer = await ask();
  return answer;
}
