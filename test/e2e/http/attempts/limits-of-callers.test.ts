import { Controller, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { Public } from '../../../support/http/callers.guard.js';
import { combinations, useStores } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

@Controller()
class LimitedController {
  @Post('things')
  @Idempotent()
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Public()
  @Post('open')
  @Idempotent({ caller: { anonymous: 'shared' } })
  open(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

const stores = useStores();

describe.each(combinations)('one caller on $platform with $store', ({ platform, store }) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: stores.fresh(store),
      controllers: [LimitedController],
      options: { limits: { maxAttemptsPerCaller: 1 } },
    }),
  );

  async function held(path: string, as: string | null) {
    const scenario = app.scenario();
    scenario.gate.close();
    const pending = scenario.start('POST', path, { as });
    await scenario.started.reached(1);
    return {
      end: () => {
        scenario.gate.open();
        return pending.response;
      },
    };
  }

  it('runs as many operations at a time as the limit allows, while another caller is served [P29]', async () => {
    const done = app.scenario();
    const first = await done.post('/things', { as: 'alice' });
    const running = await held('/things', 'alice');

    const late = app.scenario();
    expectProblem(await late.post('/things', { as: 'alice' }), 'too-many-attempts');
    expect(late.executions).toBe(0);
    expectReplay(await done.post('/things', { as: 'alice' }), first);
    expect(await app.scenario().post('/things', { as: 'bob' })).toMatchObject({ status: 201 });

    expect(await running.end()).toMatchObject({ status: 201 });
    expect(await late.post('/things', { as: 'alice' })).toMatchObject({
      status: 201,
      replayed: false,
      json: { execution: 1 },
    });
  });

  it('is not counted where anonymous callers share a scope', async () => {
    const running = [await held('/open', null), await held('/open', null)];
    for (const { end } of running) expect(await end()).toMatchObject({ status: 201 });
  });
});
