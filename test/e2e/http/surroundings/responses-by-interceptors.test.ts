import { Controller, HttpException, Post, Res } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';

async function runAsPlanned(scenario: Scenario) {
  const execution = await scenario.run();
  const plan = scenario.planned(execution);
  if (plan === 'fail') throw new HttpException('planned', 500);
  return { execution, isSilent: plan === 'stay silent' };
}

@Controller()
class TimeoutController {
  @Post('given-up-outside')
  @Idempotent()
  @Around(givingUp)
  async outside(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    const { execution, isSilent } = await runAsPlanned(scenario);
    if (!isSilent) reply.status(201).send({ execution });
  }

  @Post('given-up-inside')
  @Around(givingUp)
  @Idempotent()
  async inside(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    const { execution, isSilent } = await runAsPlanned(scenario);
    if (!isSilent) reply.status(201).send({ execution });
  }
}

describe.each(platforms)('an abandoned native handler on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: slowStore(), controllers: [TimeoutController] }),
  );

  describe.each(['/given-up-outside', '/given-up-inside'])('%s', (path) => {
    async function giveUp(...plan: string[]) {
      const scenario = app.scenario();
      scenario.plan = plan;
      scenario.gate.close();
      scenario.timeout.close();
      const pending = scenario.start('POST', path);
      await scenario.started.reached(1);
      scenario.timeout.open();
      const first = await pending.response;
      expect(first).toMatchObject({ status: 503, replayed: false });
      return scenario;
    }

    it('keeps its key until it settles', async () => {
      const scenario = await giveUp('stay silent');
      expectProblem(await scenario.post(path), 'in-progress');
      expectProblem(await scenario.post(path), 'in-progress');
      expect(scenario.executions).toBe(1);
    });

    it('does not run again after a late success without a response', async () => {
      const scenario = await giveUp('stay silent');
      scenario.gate.open();
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });

    it('does not run again after a success whose response comes too late for the client', async () => {
      const scenario = await giveUp('succeed');
      scenario.gate.open();
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });

    it('frees its key when it fails late', async () => {
      const scenario = await giveUp('fail');
      scenario.gate.open();
      const second = await onceSettled(() => scenario.post(path));
      expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
      expectReplay(await scenario.post(path), second);
      expect(scenario.executions).toBe(2);
    });
  });
});
