import { Controller, HttpException, Post, Res } from '@nestjs/common';
import { RouterExecutionContext } from '@nestjs/core/router/router-execution-context.js';
import { describe, expect, it } from '@jest/globals';
import { currentIdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { from, map, of, switchMap, throwError } from 'rxjs';
import { Around, givingUp } from '../../support/http/around.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import type { Reply } from '../../support/http/reply.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { useServer } from '../../support/servers/use-server.js';
import { useBank } from '../transactional/support/bank.js';
import { Transfers } from '../transactional/support/transfers.controller.js';
import { copyMetadata, Wrapping } from './support/wrapping.js';

/** Calls the handler again once, after the scenario's second gate opens. */
const retrying = Wrapping(async (run, [scenario]) => {
  try {
    return await run();
  } catch {
    scenario.notes.push('retrying');
    await scenario.pause?.pass();
    return await run();
  }
});

const committing = Wrapping(async (run, [scenario]) => {
  const result: unknown = await run();
  scenario.notes.push('committing');
  await scenario.gate.pass();
  if (scenario.planned(scenario.executions) === 'break') throw new Error('could not commit');
  return result;
});

const cached = Wrapping((run, [scenario]) =>
  scenario.plan[0] === 'hit' ? { cached: true } : (run() as unknown),
);

const rejectingFirst = Wrapping(async (run, [scenario]) => {
  if (scenario.notes.push('asked') === 1) throw new HttpException('not yet', 403);
  return run() as unknown;
});

/** Abandons the handler, as decorators for timeouts do. */
const timing = Wrapping((run, [scenario]) =>
  Promise.race([
    run(),
    scenario.timeout.pass().then(() => {
      throw new HttpException('too slow', 503);
    }),
  ]),
);

const fallingBack = Wrapping(async (run) => {
  try {
    return await run();
  } catch {
    return { fallback: true };
  }
});

const asynchronous = Wrapping(async (run) => {
  await Promise.resolve();
  return run() as unknown;
});

async function follow(scenario: Scenario) {
  const execution = await scenario.run();
  if (scenario.planned(execution) === 'decline') throw new HttpException({ execution }, 402);
  if (scenario.planned(execution) === 'fail') throw new Error('planned');
  return { execution };
}

@Controller()
class WrappedController {
  @retrying
  @Post('retried')
  @Around(givingUp)
  @Idempotent()
  async retried(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @committing
  @Post('committed')
  @Around(givingUp)
  @Idempotent()
  async committed(@InScenario() scenario: Scenario) {
    return { execution: scenario.started.add() };
  }

  @Post('cached')
  @cached
  @Idempotent()
  async cached(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('refused')
  @rejectingFirst
  @Idempotent({ outcome: () => true })
  async rejected(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('timed')
  @timing
  @Idempotent()
  async timed(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('fallen-back')
  @fallingBack
  @Idempotent()
  async fallenBack(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('emitted')
  @asynchronous
  @Idempotent()
  @asynchronous
  emitted(@InScenario() scenario: Scenario) {
    const runs = from(scenario.run());
    return runs.pipe(
      switchMap((execution) =>
        scenario.planned(execution) === 'decline'
          ? throwError(() => new HttpException({ execution }, 402))
          : of(1, 2).pipe(map((emission) => ({ execution, emission }))),
      ),
    );
  }

  @asynchronous
  @Post('native')
  @asynchronous
  @Idempotent()
  async native(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    const { execution } = await follow(scenario);
    reply.status(202).send({ execution, operation: currentIdempotencyContext()?.operation });
  }

  @Post('around-itself')
  @Around(givingUp)
  @Idempotent()
  async aroundItself(@InScenario() scenario: Scenario): Promise<unknown> {
    const execution = await scenario.run();
    const isInner = execution % 2 === 0;
    if (isInner) return { execution };
    await this.aroundItself(scenario);
    throw new Error('after its own success');
  }
}

describe.each(platforms)('a decorator around the handler on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: memoryStore(), controllers: [WrappedController] }),
  );

  /** Sends until the response is not "in progress". */
  async function outcomeOf(scenario: Scenario, path: string) {
    for (let post = 1; post <= 500; post += 1) {
      const response = await scenario.post(path);
      if (response.json.code !== 'idempotency_in_progress') return response;
    }
    throw new Error('the handler did not end');
  }

  /** Makes an interceptor inside of @Idempotent() abandon the handler once the scenario has a note. */
  async function givenUpAt(note: string, path: string, scenario: Scenario) {
    scenario.timeout.close();
    const pending = scenario.start('POST', path);
    for (let iteration = 0; !scenario.notes.includes(note); iteration += 1) {
      if (iteration === 500) throw new Error(`the scenario has no note ${note}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
  }

  it('that calls it again gets one outcome', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    scenario.timeout.close();
    const first = await scenario.post('/retried');
    expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
    expectReplay(await scenario.post('/retried'), first);
    expect(scenario.executions).toBe(2);
  });

  it('that is about to call it again keeps the key locked after its client got 503', async () => {
    const scenario = Object.assign(app.scenario(), { pause: app.scenario().gate });
    scenario.plan = ['fail'];
    scenario.pause.close();
    await givenUpAt('retrying', '/retried', scenario);
    expectProblem(await scenario.post('/retried'), 'in-progress');
    scenario.pause.open();
    expectProblem(await outcomeOf(scenario, '/retried'), 'response-not-kept');
    expect(scenario.executions).toBe(2);
  });

  it('that fails after the handler returned and its client got 503 frees the key', async () => {
    const scenario = app.scenario();
    scenario.plan = ['break'];
    scenario.gate.close();
    await givenUpAt('committing', '/committed', scenario);
    expectProblem(await scenario.post('/committed'), 'in-progress');
    scenario.gate.open();
    const second = await outcomeOf(scenario, '/committed');
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  it('that returns a value instead of calling it is replayed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['hit'];
    const first = await scenario.post('/cached');
    expect(first).toMatchObject({ status: 201, json: { cached: true } });
    scenario.plan = [];
    expectReplay(await scenario.post('/cached'), first);
    expect(scenario.executions).toBe(0);
  });

  it('C88 a decorator that rejects before it calls the handler keeps nothing under any policy', async () => {
    const scenario = app.scenario();
    expect(await scenario.post('/refused')).toMatchObject({ status: 403, replayed: false });
    const second = await scenario.post('/refused');
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
  });

  it('that abandons it keeps the key locked until the handler ends', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', '/timed');
    await scenario.started.reached(1);
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    expectProblem(await scenario.post('/timed'), 'in-progress');
    scenario.gate.open();
    expectProblem(await outcomeOf(scenario, '/timed'), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  it('that returns a value for its failure is replayed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/fallen-back');
    expect(first).toMatchObject({ status: 201, json: { fallback: true } });
    expectReplay(await scenario.post('/fallen-back'), first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['success', [], 201, { execution: 1, emission: 2 }],
    ['rejection', ['decline'], 402, { execution: 1 }],
  ])('above and below passes an Observable on: a %s', async (_, plan, status, json) => {
    const scenario = app.scenario();
    scenario.plan = plan;
    const first = await scenario.post('/emitted');
    expect(first).toMatchObject({ status, json });
    expectReplay(await scenario.post('/emitted'), first);
    expect(scenario.executions).toBe(1);
  });

  it('without its own name keeps the operation’s name, and the response is the handler’s', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/native');
    const operation = 'WrappedController.native';
    expect(first).toMatchObject({ status: 202, json: { execution: 1, operation } });
    expectReplay(await scenario.post('/native'), first);
    expect(scenario.executions).toBe(1);
  });

  it('is not needed: a handler that calls itself calls a plain method', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', '/around-itself');
    await scenario.started.reached(1);
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    scenario.gate.open();
    // The inner call's value is not the operation's success: the outer call throws, which frees the key.
    for (let post = 1; scenario.executions < 3; post += 1) {
      expect(post).toBeLessThan(500);
      expect((await scenario.post('/around-itself')).json.code).not.toBe(
        'idempotency_response_not_kept',
      );
    }
  });

  it('that instrumentation adds when the application starts changes nothing', async () => {
    // As @opentelemetry/instrumentation-nestjs-core does.
    const { prototype } = RouterExecutionContext;
    const create = Reflect.get(prototype, 'create');
    prototype.create = function (instance, callback, ...rest) {
      const instrumented = (...args: unknown[]): unknown => callback.apply(instance, args);
      copyMetadata(callback, instrumented);
      Object.defineProperty(instrumented, 'name', { value: callback.name });
      return create.call(this, instance, instrumented, ...rest);
    };
    const instrumented = await startApp({
      platform,
      store: memoryStore(),
      controllers: [WrappedController],
    }).finally(() => {
      prototype.create = create;
    });
    const scenario = instrumented.scenario();
    scenario.plan = ['decline'];
    const first = await scenario.post('/emitted');
    expect(first).toMatchObject({ status: 402, json: { execution: 1 } });
    expectReplay(await scenario.post('/emitted'), first);
    await instrumented.close();
  });
});

@Controller()
@Idempotent({ transaction: true })
class WrappedTransfersController {
  constructor(private readonly transfers: Transfers) {}

  @retrying
  @Post('retried')
  @Idempotent()
  async retried(@InScenario() scenario: Scenario) {
    return this.transfer(scenario);
  }

  @fallingBack
  @Post('fallen-back')
  @Idempotent()
  async fallenBack(@InScenario() scenario: Scenario) {
    return this.transfer(scenario);
  }

  @asynchronous
  @Post('around-itself')
  @Idempotent()
  async aroundItself(@InScenario() scenario: Scenario, isInner = false): Promise<unknown> {
    const inner = isInner ? undefined : await this.aroundItself(scenario, true);
    return { inner, ...(await this.transfer(scenario)) };
  }

  private async transfer(scenario: Scenario) {
    const execution = await scenario.run();
    await this.transfers.add(scenario, execution);
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }
}

describe('a decorator around a transactional handler', () => {
  const bank = useBank();
  const app = useServer(() =>
    startApp({
      platform: 'express',
      controllers: [WrappedTransfersController],
      providers: [Transfers],
      store: bank.newStore(),
      options: {
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 },
      },
    }),
  );

  it('that calls it again in the same transaction is rejected, and nothing is committed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    expect((await scenario.post('/retried')).status).toBe(500);
    expect(scenario.executions).toBe(1);
    expect(await bank.committed(scenario)).toEqual([]);
  });

  it('that returns a value for its failure is replayed, and the handler’s writes are rolled back', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/fallen-back');
    expect(first).toMatchObject({ status: 201, json: { fallback: true } });
    expect(await bank.committed(scenario)).toEqual([]);
    expectReplay(await scenario.post('/fallen-back'), first);
  });

  it('lets the handler call itself as one operation', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/around-itself');
    expect(first).toMatchObject({ status: 201, json: { execution: 2, inner: { execution: 1 } } });
    expect(await bank.committed(scenario)).toEqual([1, 2]);
    expectReplay(await scenario.post('/around-itself'), first);
  });
});
