import { Body, Controller, HttpException, Post, Res } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyContext, IdempotencyEvents, Idempotent } from 'nestjs-idempotency';
import { from, mergeMap, of, retry, throwError } from 'rxjs';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';
import { until } from '../../../support/waiting/until.js';

/** Runs once per call and ends as the scenario plans: throws a status, or returns. */
async function attemptAs(scenario: Scenario, attempt: number): Promise<{ execution: number }> {
  const execution = await scenario.run();
  scenario.notes.push(attempt);
  const plan = scenario.planned(execution);
  if (plan !== 'succeed') throw new HttpException({ execution }, Number(plan));
  return { execution };
}

const retrying: Around = (next) => next.handle().pipe(retry(1));

/** Fails once after everything inside it succeeded, and subscribes again. */
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

/** Gives up, and subscribes again once the attempt is settled. */
const retryingLater: Around = (next, scenario) => {
  const delay = () => from(until(() => scenario.notes.includes('settled')));
  return givingUp(next, scenario).pipe(retry({ count: 1, delay }));
};

@Controller()
class RetriedController {
  @Post('given-up-and-retried-later')
  @Idempotent()
  @Around(retryingLater)
  async retriedLater(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }

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
    const response = await attemptAs(scenario, attempt);
    reply.status(201).send(response);
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

describe.each(platforms)('a retrying interceptor on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [RetriedController] }),
  );

  describe.each(['/retried', '/retried-natively'])('outside of @Idempotent(), %s', (path) => {
    it('does not change the rejection of a concurrent duplicate', async () => {
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

    it('does not change the rejection of a reused key', async () => {
      const scenario = app.scenario();
      await scenario.post(path, { json: { amount: 1 } });
      expectProblem(await scenario.post(path, { json: { amount: 2 } }), 'key-reused');
      expect(scenario.executions).toBe(1);
    });

    it('does not change the rejection of a missing key', async () => {
      const scenario = app.scenario();
      expectProblem(await scenario.post(path, { key: null }), 'key-missing');
      expect(scenario.executions).toBe(0);
    });

    it('runs a failed handler again within its attempt, and its success is kept', async () => {
      const scenario = app.scenario();
      scenario.plan = ['503'];
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.notes).toEqual([1, 1]);
    });

    it('has the last of two failures recorded', async () => {
      const scenario = app.scenario();
      scenario.plan = ['503', '402'];
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 402, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(2);
    });

    it('frees the key after two failures of which the last is not kept', async () => {
      const scenario = app.scenario();
      scenario.plan = ['402', '503'];
      expect(await scenario.post(path)).toMatchObject({ status: 503, replayed: false });
      const third = await scenario.post(path);
      expect(third).toMatchObject({ status: 201, replayed: false, json: { execution: 3 } });
      expect(scenario.notes).toEqual([1, 1, 2]);
    });
  });

  it('gets the replay again when it subscribes to it twice', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/doubted');
    expectReplay(await scenario.post('/doubted'), first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['succeed', 409],
    ['fail', 201],
  ])(
    'that subscribes again after the late end of a handler does not run it without its key (%s)',
    async (plan, status) => {
      const path = '/given-up-and-retried-later';
      const scenario = app.scenario();
      scenario.plan = [plan];
      scenario.gate.close();
      scenario.timeout.close();
      const unsubscribe = app.nest.get(IdempotencyEvents).subscribe(({ type }) => {
        if (type === 'completed' || type === 'released') scenario.notes.push('settled');
      });
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      scenario.gate.open();
      expectProblem(await pending.response, 'store-unavailable');
      unsubscribe();
      expect(scenario.executions).toBe(1);
      expect((await scenario.post(path)).status).toBe(status);
    },
  );

  describe('inside of @Idempotent(), around a timeout', () => {
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

    it('has the second execution decide the attempt while the first continues', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['in time', 'at once']);
      const first = await pending.response;
      expect(first).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), first);
      scenario.gate.open();
      expectReplay(await scenario.post(path), first);
      expect(scenario.executions).toBe(2);
    });

    it('keeps the key locked while either execution continues, and one success counts', async () => {
      const { scenario, pending } = await afterTheFirstTimeout(['fail', 'in time']);
      scenario.timeout.open();
      expect((await pending.response).status).toBe(503);
      expectProblem(await scenario.post(path), 'in-progress');
      scenario.gate.open();
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      expect(scenario.executions).toBe(2);
    });

    it('frees the key when both executions fail late', async () => {
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
