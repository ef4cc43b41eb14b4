import { Controller, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { slowStore } from '../../support/slow-store.js';

@Controller()
class ComparingController {
  @Post('by-value')
  @Idempotent()
  async byValue(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('without-a-member')
  @Idempotent({ fingerprint: { exclude: ['note'] } })
  async withoutAMember(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('by-a-member')
  @Idempotent({ fingerprint: { include: ['items.sku'] } })
  async byAMember(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

/** Valid JSON, within the parsers' limits, and deeper than a recursion gets. */
const DEPTH = 40_000;
const deep = '['.repeat(DEPTH) + ']'.repeat(DEPTH);

describe.each(platforms)('C35 content nested beyond measure on %s', (platform) => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({ platform, store: slowStore(), controllers: [ComparingController] });
  });

  afterAll(() => app.close());

  it.each(['/by-value', '/without-a-member', '/by-a-member'])(
    'is refused where it is compared %s',
    async (path) => {
      const scenario = app.scenario();
      expectProblem(await scenario.post(path, { body: deep }), 'content-invalid');
      expectProblem(await scenario.post(path, { body: `{"items":${deep}}` }), 'content-invalid');
      expect(scenario.executions).toBe(0);
      expect(await scenario.post(path, { json: { items: [] } })).toMatchObject({ status: 201 });
    },
  );
});
