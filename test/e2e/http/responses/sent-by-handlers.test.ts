import { describe, expect, it } from '@jest/globals';
import { Controller, Post, Res } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Around, givingUp } from '../../../support/http/around.js';
import { platforms, useStores } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { type ExpressResponse, type FastifyReply, takeRaw } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { formsOf, PARTIAL, sendingController } from '../../../support/http/sent-by-handlers.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

const stores = useStores();

@Controller()
class GivenUpController {
  @Post('given-up')
  @Around(givingUp)
  @Idempotent()
  async givenUp(
    @InScenario() scenario: Scenario,
    @Res({ passthrough: true }) reply: ExpressResponse | FastifyReply,
  ) {
    const raw = takeRaw(reply);
    raw.writeHead(201);
    raw.write('begun');
    await scenario.run();
    throw new Error('planned');
  }
}

describe.each(platforms)('a response that an ordinary handler sends itself on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: stores.fresh('redis'),
      controllers: [sendingController(platform, {}, () => undefined), GivenUpController],
    }),
  );

  it('is begun once, although an interceptor around it gives up, and then it throws', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', '/given-up');
    await scenario.started.reached(1);
    scenario.timeout.open();
    expect((await pending.response).text).toBe('begun');
    scenario.gate.open();
    await scenario.passed.reached(1);
    expectProblem(await onceSettled(() => scenario.post('/given-up')), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  describe.each(formsOf(platform))('by %s', (form) => {
    const path = (end: string) => `/${encodeURIComponent(form)}/${end}`;
    const isPartial = PARTIAL.includes(form);

    it('is its outcome if it returns', async () => {
      const scenario = app.scenario();
      const first = await scenario.post(path('returns'));
      expect(first.status).toBeLessThan(400);
      expectReplay(await scenario.post(path('returns')), first);
      expect(scenario.executions).toBe(1);
    });

    it('is its outcome if it throws after it [P19]', async () => {
      const scenario = app.scenario();
      const first = await scenario.post(path('throws'));
      expect(first.status).toBeLessThan(400);
      const second = await scenario.post(path('throws'));
      if (isPartial) expectProblem(second, 'response-not-kept');
      else expectReplay(second, first);
      expect(scenario.executions).toBe(1);
    });

    it(`leaves ${isPartial ? 'after' : 'before'} the end of a handler that awaits something after it`, async () => {
      const scenario = app.scenario();
      scenario.gate.close();
      const pending = scenario.start('POST', path('awaits'));
      await scenario.started.reached(1);
      if (isPartial) {
        await app.scenario().post(path('returns'));
        expect(pending.receivedBytes).toBe(0);
        scenario.gate.open();
      }
      const first = await pending.response;
      expect(first.status).toBeLessThan(400);
      expect(scenario.passed.count).toBe(isPartial ? 1 : 0);
      expectReplay(await onceSettled(() => scenario.post(path('awaits'))), first);
      scenario.gate.open();
      await scenario.passed.reached(1);
      expectReplay(await scenario.post(path('awaits')), first);
      expect(scenario.executions).toBe(1);
    });
  });
});
