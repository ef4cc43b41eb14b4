import {
  BadRequestException,
  Body,
  Controller,
  HttpException,
  Param,
  ParseIntPipe,
  Post,
  Res,
  ValidationPipe,
} from '@nestjs/common';
import { IsInt, Min } from 'class-validator';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { defer } from 'rxjs';
import { combinations, useStores } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Reply } from '../../support/http/reply.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

class Order {
  @IsInt()
  @Min(1)
  amount!: number;
}

@Controller()
class FailuresController {
  /** Ends as the scenario has planned: `throw 404`, `return 404`, `raise`, `reject with text`; else succeeds. */
  @Post('ends')
  @Idempotent()
  async ends(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: Reply,
    @IdempotencyContext() context: { readonly attempt: number; readonly isTakeover: boolean },
  ) {
    const execution = await scenario.run();
    const { attempt, isTakeover } = context;
    scenario.notes.push({ attempt, isTakeover });
    reply.header('X-Execution', String(execution));
    return this.end(scenario.planned(execution), execution, reply);
  }

  @Post('ends-as-observable')
  @Idempotent()
  endsAsObservable(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    return defer(async () => {
      const execution = await scenario.run();
      return this.end(scenario.planned(execution), execution, reply);
    });
  }

  @Post('ends-natively')
  @Idempotent()
  async endsNatively(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    const execution = await scenario.run();
    const body = this.end(scenario.planned(execution), execution, reply);
    reply.header('X-Execution', String(execution)).send(body);
  }

  @Post('keeps-all')
  @Idempotent({ keep: () => true })
  async keepsAll(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    const execution = await scenario.run();
    return this.end(scenario.planned(execution), execution, reply);
  }

  @Post('keeps-successes')
  @Idempotent({
    keep: ({ status, error }) => error === undefined && status !== undefined && status < 400,
  })
  async keepsSuccesses(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    const execution = await scenario.run();
    return this.end(scenario.planned(execution), execution, reply);
  }

  @Post('validated')
  @Idempotent()
  async validated(@InScenario() scenario: Scenario, @Body(new ValidationPipe()) order: Order) {
    return { execution: await scenario.run(), amount: order.amount };
  }

  @Post('numbered/:id')
  @Idempotent()
  async numbered(@InScenario() scenario: Scenario, @Param('id', ParseIntPipe) id: number) {
    return { execution: await scenario.run(), id };
  }

  @Post('validates-itself')
  @Idempotent()
  async validatesItself(@InScenario() scenario: Scenario, @Body() body: { amount: number }) {
    const execution = await scenario.run();
    if (body.amount < 1) throw new BadRequestException('the amount is too small');
    return { execution };
  }

  private end(plan: string, execution: number, reply: Reply): object {
    const [how, status] = plan.split(' ');
    const body = { execution, plan };
    switch (how) {
      case 'throw':
        throw new HttpException(body, Number(status));
      case 'return':
        reply.status(Number(status));
        return body;
      case 'raise':
        throw new TypeError('nobody expected this');
      case 'reject':
        // eslint-disable-next-line @typescript-eslint/only-throw-error -- applications do it
        throw 'a text';
      default:
        return body;
    }
  }
}

const KEPT = [400, 402, 404, 409, 410, 422];
const RELEASED = [401, 403, 408, 412, 425, 429];
const SERVER_ERRORS = [500, 501, 502, 503, 504];
const either = (statuses: readonly number[]) =>
  statuses.flatMap((status) => [`throw ${status}`, `return ${status}`]);
const statusOf = (plan: string) => Number(plan.split(' ')[1] ?? 500);

const stores = useStores();

describe.each(combinations)('failures on $platform with $store', ({ platform, store }) => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [FailuresController],
    });
  });

  afterAll(() => app.close());

  async function expectKept(path: string, plan: string) {
    const scenario = app.scenario();
    scenario.plan = [plan];
    const first = await scenario.post(path);
    expect(first).toMatchObject({ status: statusOf(plan), replayed: false });
    expectReplay(await scenario.post(path), first);
    expectReplay(await scenario.post(path), first);
    expect(scenario.executions).toBe(1);
    return first;
  }

  async function expectReleased(path: string, plan: string) {
    const scenario = app.scenario();
    scenario.plan = [plan];
    expect(await scenario.post(path)).toMatchObject({ status: statusOf(plan), replayed: false });
    const second = await scenario.post(path);
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
    expectReplay(await scenario.post(path), second);
    expect(scenario.executions).toBe(2);
    return scenario;
  }

  it.each(either(KEPT))('C74 %s: kept and replayed with body and headers', async (plan) => {
    const first = await expectKept('/ends', plan);
    expect(first.json).toEqual({ execution: 1, plan });
    expect(first.header('x-execution')).toBe('1');
  });

  it.each(either([404, 409]))('C74 %s from an Observable: kept', (plan) =>
    expectKept('/ends-as-observable', plan),
  );

  it.each(either([404, 409]))('C74 %s from a native handler: kept', (plan) =>
    expectKept('/ends-natively', plan),
  );

  it.each(either(RELEASED))('C75 %s: not kept, the retry executes', (plan) =>
    expectReleased('/ends', plan),
  );

  it.each([...either(SERVER_ERRORS), 'raise', 'reject'])(
    'C76 %s: not kept, the retry executes and then replays',
    async (plan) => {
      const scenario = await expectReleased('/ends', plan);
      expect(scenario.notes).toEqual([
        { attempt: 1, isTakeover: false },
        { attempt: 2, isTakeover: false },
      ]);
    },
  );

  it.each(['throw 500', 'return 503', 'raise', 'throw 429'])(
    'C76 %s from an Observable: not kept',
    async (plan) => {
      await expectReleased('/ends-as-observable', plan);
    },
  );

  it.each(['throw 500', 'return 503', 'raise', 'return 429'])(
    'C76 %s from a native handler: not kept',
    async (plan) => {
      const scenario = app.scenario();
      scenario.plan = [plan];
      expect(await scenario.post('/ends-natively')).toMatchObject({
        status: statusOf(plan),
        replayed: false,
      });
      const second = await scenario.post('/ends-natively');
      expect(second).toMatchObject({ replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post('/ends-natively'), second);
    },
  );

  it.each([...either([500, 503, 401, 429]), 'raise'])('C76 keep can keep everything: %s', (plan) =>
    expectKept('/keeps-all', plan),
  );

  it.each(either([400, 404, 409, 500]))('C74 keep can release every failure: %s', async (plan) => {
    await expectReleased('/keeps-successes', plan);
  });

  it('C77 after a release ten parallel retries execute once', async () => {
    const scenario = app.scenario();
    scenario.plan = ['throw 500'];
    expect((await scenario.post('/ends')).status).toBe(500);
    scenario.gate.close();
    const retries = Array.from({ length: 10 }, () => scenario.start('POST', '/ends'));
    await scenario.started.reached(2);
    await scenario.arrived.reached(11);
    scenario.gate.open();
    const answers = await Promise.all(retries.map(({ response }) => response));
    expect(scenario.executions).toBe(2);
    const firsts = answers.filter(({ status, replayed }) => status === 201 && !replayed);
    expect(firsts).toHaveLength(1);
    for (const answer of answers.filter((one) => one !== firsts[0])) {
      if (answer.replayed) expectReplay(answer, firsts[0]!);
      else expectProblem(answer, 'in-progress');
    }
  });

  it.each([...either([400, 401, 429, 500, 503]), 'raise', 'reject'])(
    'C78 %s never leaves the key answering 409',
    async (plan) => {
      for (const path of ['/ends', '/ends-as-observable', '/ends-natively']) {
        const scenario = app.scenario();
        scenario.plan = [plan];
        const statuses = [(await scenario.post(path)).status, (await scenario.post(path)).status];
        expect(statuses).not.toContain(409);
      }
    },
  );

  it('C79 400 and 422 of the layer use nothing up', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/ends', { key: null })).status).toBe(400);
    expect((await scenario.post('/ends', { key: [scenario.key, scenario.key] })).status).toBe(400);
    expect((await scenario.post('/ends', { body: '{"a":1e400}' })).status).toBe(400);
    const first = await scenario.post('/ends', { json: { a: 1 } });
    expect(first).toMatchObject({ status: 201, replayed: false });
    expect((await scenario.post('/ends', { json: { a: 2 } })).status).toBe(422);
    expectProblem(await scenario.post('/ends', { json: { a: 2 } }), 'key-reused');
    expectReplay(await scenario.post('/ends', { json: { a: 1 } }), first);
    expect(scenario.executions).toBe(1);
  });

  it('C79 after a release another payload is welcome', async () => {
    const scenario = app.scenario();
    scenario.plan = ['throw 500'];
    expect((await scenario.post('/ends', { json: { a: 1 } })).status).toBe(500);
    const second = await scenario.post('/ends', { json: { a: 2 } });
    expect(second).toMatchObject({ status: 201, replayed: false });
  });

  it('C88 validation that fails before the handler uses the key not up', async () => {
    const scenario = app.scenario();
    const refused = await scenario.post('/validated', { json: { amount: 0 } });
    expect(refused).toMatchObject({ status: 400, replayed: false });
    expect(await scenario.post('/validated', { json: { amount: 0 } })).toMatchObject({
      status: 400,
      replayed: false,
    });
    const first = await scenario.post('/validated', { json: { amount: 5 } });
    expect(first).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 1, amount: 5 },
    });
    expectReplay(await scenario.post('/validated', { json: { amount: 5 } }), first);
    expectProblem(await scenario.post('/validated', { json: { amount: 6 } }), 'key-reused');
    expect(scenario.executions).toBe(1);
  });

  it('C88 neither does a pipe of a parameter', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/numbered/seven')).status).toBe(400);
    expect(await scenario.post('/numbered/7')).toMatchObject({
      status: 201,
      replayed: false,
      json: { id: 7 },
    });
  });

  it('C88 validation inside the handler is an answer of the handler, and kept', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/validates-itself', { json: { amount: 0 } });
    expect(first.status).toBe(400);
    expectReplay(await scenario.post('/validates-itself', { json: { amount: 0 } }), first);
    expectProblem(await scenario.post('/validates-itself', { json: { amount: 5 } }), 'key-reused');
    expect(scenario.executions).toBe(1);
  });
});
