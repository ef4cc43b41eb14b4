import { Controller, InternalServerErrorException, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { Around, givingUp } from '../../support/http/around.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { slowStore } from '../../support/stores/slow-store.js';
import { useServer } from '../../support/servers/use-server.js';

async function effect(scenario: Scenario) {
  const execution = await scenario.run();
  if (scenario.planned(execution) === 'fail') throw new InternalServerErrorException();
  return { execution };
}

/** What a query builder returns: a thenable that is not a promise. */
class Query {
  private readonly result: Promise<unknown>;

  constructor(scenario: Scenario) {
    this.result = effect(scenario);
  }

  then(...handlers: Parameters<Promise<unknown>['then']>) {
    return this.result.then(...handlers);
  }
}

@Controller()
class ThenableController {
  @Post('plain')
  @Idempotent()
  plain(@InScenario() scenario: Scenario) {
    return new Query(scenario);
  }

  @Post('inside')
  @Idempotent()
  @Around(givingUp)
  inside(@InScenario() scenario: Scenario) {
    return new Query(scenario);
  }

  @Post('outside')
  @Around(givingUp)
  @Idempotent()
  outside(@InScenario() scenario: Scenario) {
    return new Query(scenario);
  }
}

describe.each(platforms)('a handler that returns a thenable on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [ThenableController] }),
  );

  it('ends when the thenable settles: its value is the response, and is replayed', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', '/plain');
    await scenario.started.reached(1);
    expectProblem(await scenario.post('/plain'), 'in-progress');
    scenario.gate.open();
    const first = await pending.response;
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expectReplay(await scenario.post('/plain'), first);
    expect(scenario.executions).toBe(1);
  });

  it('fails when the thenable rejects: the key is free', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    expect(await scenario.post('/plain')).toMatchObject({ status: 500 });
    expect(await scenario.post('/plain')).toMatchObject({ status: 201, json: { execution: 2 } });
  });

  it.each(['/inside', '/outside'])(
    'keeps its key when an interceptor times out, and never runs concurrently with itself: %s',
    async (path) => {
      const scenario = app.scenario();
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      expect(await pending.response).toMatchObject({ status: 503, replayed: false });
      scenario.timeout.close();
      expectProblem(await scenario.post(path), 'in-progress');
      expect(scenario.executions).toBe(1);
      scenario.gate.open();
      let response = await scenario.post(path);
      while (response.json.code === 'idempotency_in_progress') response = await scenario.post(path);
      expectProblem(response, 'response-not-kept');
      expect(scenario.executions).toBe(1);
    },
  );
});
