import { Body, Controller, HttpException, Post, Res } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { mergeMap, of, retry, throwError } from 'rxjs';
import { Around, givingUp } from '../../support/http/around.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { onceSettled } from '../../support/http/once-settled.js';
import type { Reply } from '../../support/http/reply.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { slowStore } from '../../support/slow-store.js';
import { useServer } from '../../support/use-server.js';

/** Runs as often as it is called and ends as the scenario has planned: by a status that is thrown, or well. */
async function attemptAs(scenario: Scenario, attempt: number): Promise<{ execution: number }> {
  const execution = await scenario.run();
  scenario.notes.push(attempt);
  const plan = scenario.planned(execution);
  if (plan !== 'succeed') throw new HttpException({ execution }, Number(plan));
  return { execution };
}

const retrying: Around = (next) => next.handle().pipe(retry(1));

/** Fails once after everything below it has succeeded, and asks again. */
const doubting: Around = (next) => {
  let asked = 0;
  return next.handle().pipe(
    mergeMap((value) => {
      asked += 1;
      return asked === 1 ? throwError(() => new Error('doubtful')) : of(value);
    }),
    retry(1),
  );
};

const doubtingReplays: Around = (next, scenario) =>
  scenario.executions > 0 ? doubting(next, scenario) : next.handle();

@Controller()
class RetriedController {
  @Post('retried')
  @Idempotent()
  @Around(retrying)
  retried(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { attempt }: IdempotencyContext,
    @Body() _content: unknown,
  ) {
    return attemptAs(scenario, attempt);
  }

  @Post('retried-natively')
  @Idempotent()
  @Around(retrying)
  async retriedNatively(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { attempt }: IdempotencyContext,
    @Res() reply: Reply,
  ) {
    const answer = await attemptAs(scenario, attempt);
    reply.status(201).send(answer);
  }

  @Post('doubted')
  @Idempotent()
  @Around(doubtingReplays)
  doubted(@InScenario() scenario: Scenario) {
    return attemptAs(scenario, 1);
  }

  @Post('given-up-and-retried-inside')
  @Around((next, scenario) => givingUp(next, scenario).pipe(retry(1)))
  @Idempotent()
  async retriedInside(@InScenario() scenario: Scenario) {
    const execution = scenario.started.add();
    if (scenario.planned(execution) !== 'at once') await scenario.gate.pass();
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }
}

describe.each(platforms)('repeated by an interceptor on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [RetriedController] }),
  );

  describe.each(['/retried', '/retried-natively'])('from outside of the layer, %s', (path) => {
    it('a duplicate in flight stays refused', async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      const first = await pending.response;
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(1);
    });

    it('another request under the key stays refused', async () => {
      const scenario = app.scenario();
      await scenario.post(path, { json: { amount: 1 } });
      expectProblem(await scenario.post(path, { json: { amount: 2 } }), 'key-reused');
      expect(scenario.executions).toBe(1);
    });

    it('a request without a key stays refused', async () => {
      const scenario = app.scenario();
      expectProblem(await scenario.post(path, { key: null }), 'key-missing');
      expect(scenario.executions).toBe(0);
    });

    it('a handler that fails once runs again within its attempt, and its success is kept', async () => {
      const scenario = app.scenario();
      scenario.plan = ['503'];
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.notes).toEqual([1, 1]);
    });

    it('of two failures the last is recorded', async () => {
      const scenario = app.scenario();
      scenario.plan = ['503', '402'];
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 402, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(2);
    });

    it('two failures that are not kept free the key', async () => {
      const scenario = app.scenario();
      scenario.plan = ['402', '503'];
      expect(await scenario.post(path)).toMatchObject({ status: 503, replayed: false });
      const third = await scenario.post(path);
      expect(third).toMatchObject({ status: 201, replayed: false, json: { execution: 3 } });
      expect(scenario.notes).toEqual([1, 1, 2]);
    });
  });

  it('a replay that is asked for twice is still the replay', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/doubted');
    expectReplay(await scenario.post('/doubted'), first);
    expect(scenario.executions).toBe(1);
  });

  describe('inside of the layer, behind a timeout', () => {
    const path = '/given-up-and-retried-inside';

    async function afterTheFirstTimeout(plan: readonly string[]) {
      const scenario = app.scenario();
      scenario.plan = plan;
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      await scenario.started.reached(2);
      return { scenario, pending };
    }

    it('the second run answers for the attempt while the first goes on', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['in time', 'at once']);
      const first = await pending.response;
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      scenario.gate.open();
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(2);
    });

    it('the key stays locked while either of two runs goes on, and one success is a success', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['fail', 'in time']);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      expect(scenario.executions).toBe(2);
    });

    it('two runs that both fail late free the key', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['fail', 'fail']);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      const third = await onceSettled(() => scenario.post(path));
      expect(third).toMatchObject({ status: 201, replayed: false, json: { execution: 3 } });
    });
  });
});
