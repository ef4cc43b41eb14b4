import { Controller, Logger, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { platforms } from '../../support/http/combinations.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { slowStore } from '../../support/slow-store.js';
import { LoggedLines } from '../../integration/nest/support/logged-lines.js';

@Controller()
class PromisingController {
  @Post('enabled-by-a-promise')
  @Idempotent({ enabled: (async () => false) as never })
  async enabled(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('kept-by-a-promise')
  @Idempotent({ keep: (async () => false) as never })
  async kept(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('fails-kept-by-a-promise')
  @Idempotent({ keep: (async () => true) as never })
  async failing(@InScenario() scenario: Scenario) {
    const execution = await scenario.run();
    throw new Error(`execution ${execution}`);
  }
}

describe.each(platforms)('options that answer with a promise on %s', (platform) => {
  const logged = new LoggedLines();
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: slowStore(),
      controllers: [PromisingController],
      configure: (nest) => nest.useLogger(logged),
    });
  });

  afterAll(async () => {
    await app.close();
    Logger.overrideLogger(false);
  });

  it('enabled: nothing runs, and the log says why', async () => {
    const scenario = app.scenario();
    expect(await scenario.post('/enabled-by-a-promise')).toMatchObject({
      status: 500,
      replayed: false,
    });
    expect(scenario.executions).toBe(0);
    const errors = logged.lines.filter(({ level }) => level === 'error');
    expect(errors.map(({ message }) => message).join('\n')).toMatch(
      /option "enabled" of PromisingController\.enabled must answer true or false, at once/,
    );
  });

  it('keep: a success is kept, as by default', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/kept-by-a-promise');
    expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
    expectReplay(await scenario.post('/kept-by-a-promise'), first);
    expect(scenario.executions).toBe(1);
  });

  it('keep: a failure is not kept, as by default', async () => {
    const scenario = app.scenario();
    for (let post = 1; post <= 2; post += 1) {
      expect(await scenario.post('/fails-kept-by-a-promise')).toMatchObject({
        status: 500,
        replayed: false,
      });
    }
    expect(scenario.executions).toBe(2);
  });
});
