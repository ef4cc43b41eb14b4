import { Controller, Post } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { combinations, useStores } from '../../../support/http/combinations.js';
import { expectProblem } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';

@Controller()
class ShutdownController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

const stores = useStores();

describe.each(combinations)('the shutdown on $platform with $store', ({ platform, store }) => {
  it('waits for the running handler and rejects new requests', async () => {
    const app = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [ShutdownController],
    });
    const running = app.scenario();
    running.gate.close();
    const pending = running.start('POST', '/things');
    await running.started.reached(1);

    const closed = app.nest.close();
    let late = app.scenario();
    let rejection = await late.post('/things');
    while (rejection.status === 201) {
      late = app.scenario();
      rejection = await late.post('/things');
    }
    expectProblem(rejection, 'shutting-down');
    expect(late.executions).toBe(0);

    running.gate.open();
    expect(await pending.response).toMatchObject({ status: 201, json: { execution: 1 } });
    await closed;
  });
});
