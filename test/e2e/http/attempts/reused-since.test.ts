import { Controller, HttpException, Post } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyService,
  Idempotent,
  currentIdempotencyContext,
  type IdempotencyEvent,
  type OperationRejectedError,
} from 'nestjs-idempotency';
import { redisUnderTest } from '../../../conformance/redis-under-test.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { Gate } from '../../../support/waiting/gate.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { Tally } from '../../../support/waiting/tally.js';
import { rejection } from '../../../support/nest/calling-app.js';

const LEASE_MS = 60_000;
const RETENTION_MS = 3_600_000;
@Controller()
class Payments {
  @Post('payments')
  @Idempotent({
    lease: { durationMs: LEASE_MS },
    outcome: {
      keep: ({ status }) => status !== undefined && status !== 503,
      retentionMs: RETENTION_MS,
    },
  })
  async pay(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    const status = Number(scenario.plan[execution - 1] ?? 201);
    if (status >= 400) throw new HttpException('planned', status);
    return { token: currentIdempotencyContext()?.fencingToken };
  }
}

/** Two processes share one record in a Redis whose clock only the test advances. */
describe.each(platforms)('an attempt that ends late on %s', (platform) => {
  let passTime: (ms: number) => unknown;
  let here: TestApp;
  let elsewhere: TestApp;
  let reported: IdempotencyEvent['type'][];

  beforeEach(async () => {
    const stores = [await redisUnderTest.create(), await redisUnderTest.create()] as const;
    const start = (store: (typeof stores)[number]['store']) =>
      startApp({ platform, store, controllers: [Payments] });
    [here, elsewhere] = [await start(stores[0].store), await start(stores[1].store)];
    passTime = (ms) => stores[1].clock?.step(ms);
    reported = [];
    here.nest.get(IdempotencyEvents).subscribe(({ type }) => reported.push(type));
  });
  afterEach(() => Promise.all([here.close(), elsewhere.close()]));

  async function late(json: object, plan: readonly string[] = []) {
    const scenario = here.scenario();
    scenario.plan = plan;
    scenario.gate.close();
    const pending = scenario.start('POST', '/payments', { json });
    await scenario.started.reached(1);
    return { scenario, pending };
  }

  it('gets outcome unknown, not the outcome of a later request with the same key [P51]', async () => {
    const { scenario, pending } = await late({ amount: 1_000 });
    const { key } = scenario;
    await passTime(LEASE_MS);
    const taker = elsewhere.scenario();
    taker.plan = ['503'];
    expect((await taker.post('/payments', { key, json: { amount: 1_000 } })).status).toBe(503);
    const reused = await taker.post('/payments', { key, json: { amount: 1 } });
    expect(reused).toMatchObject({ status: 201, replayed: false });

    scenario.gate.open();
    const response = await pending.response;
    expectProblem(response, 'outcome-unknown');
    expect(response.text).not.toContain(String(reused.json.token));
    expect(reported).toEqual(['acquired', 'outcome_diverged', 'ended']);
    expectReplay(await scenario.post('/payments', { json: { amount: 1 } }), reused);
    expectProblem(await scenario.post('/payments', { json: { amount: 1_000 } }), 'key-reused');
    expect([scenario.executions, taker.executions]).toEqual([1, 2]);
  });

  it('gets its own failure when its record is gone, and does not write it back', async () => {
    const { scenario, pending } = await late({ amount: 1_000 }, ['402']);
    await passTime(2 * RETENTION_MS);
    scenario.gate.open();
    expect(await pending.response).toMatchObject({ status: 402, replayed: false });
    expect(reported).toEqual(['acquired', 'record_lost', 'save_failed', 'ended']);
    const again = await elsewhere.scenario().post('/payments', {
      key: scenario.key,
      json: { amount: 1_000 },
    });
    expect(again).toMatchObject({ status: 201, replayed: false });
  });

  it('of a plain call does not get the later outcome either', async () => {
    const [service, other] = [here, elsewhere].map(({ nest }) => nest.get(IdempotencyService));
    const call = {
      ...{ operation: 'settle', key: crypto.randomUUID(), scope: 'alice' },
      lease: { durationMs: LEASE_MS },
      outcome: { retentionMs: RETENTION_MS },
    };
    const [gate, started] = [new Gate(), new Tally()];
    gate.close();
    const running = rejection(
      service!.run({ ...call, payload: { amount: 1_000 } }, async () => {
        started.add();
        await gate.pass();
        return 'settled 1000';
      }),
    );
    await started.reached(1);
    await passTime(LEASE_MS);
    const failing = other!.run({ ...call, payload: { amount: 1_000 } }, () => {
      throw new Error('planned');
    });
    expect((await rejection(failing)).message).toBe('planned');
    const reused = { ...call, payload: { amount: 1 } };
    expect(await other!.run(reused, () => 'settled 1')).toBe('settled 1');

    gate.open();
    const rejectedWith = (await running) as OperationRejectedError;
    expect(rejectedWith.code).toBe('idempotency_outcome_unknown');
    expect(rejectedWith.message).not.toContain('settled');
    expect(await service!.run(reused, () => 'again')).toBe('settled 1');
  });
});
