import { Controller, Post, type ExecutionContext } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Public } from '../../support/http/callers.guard.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

function callerOf(context: ExecutionContext): string | undefined {
  return context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers[
    'x-caller'
  ];
}

@Controller()
class CallersController {
  @Post('things')
  @Idempotent()
  create(@InScenario() scenario: Scenario) {
    return scenario.answer();
  }

  @Post('by-header')
  @Idempotent({ scope: callerOf })
  byHeader(@InScenario() scenario: Scenario) {
    return scenario.answer();
  }

  @Post('public-optional')
  @Public()
  @Idempotent({ required: false })
  anonymousOptional(@InScenario() scenario: Scenario) {
    return scenario.answer();
  }
}

const token = (user: object) => `user:${JSON.stringify(user)}`;

/** What of the callers depends on how the application names them. */
describe.each(platforms)('callers on %s', (platform) => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({ platform, store: memoryStore(), controllers: [CallersController] });
  });

  afterAll(() => app.close());

  it('C24 a user number and the same digits as a text are two callers', async () => {
    const scenario = app.scenario();
    await scenario.post('/things', { as: token({ id: 7 }) });
    await scenario.post('/things', { as: token({ id: '7' }) });
    expect(scenario.executions).toBe(2);
    expect((await scenario.post('/things', { as: token({ id: 7 }) })).json).toEqual({
      execution: 1,
    });
  });

  it('the principal is user.id, or user.sub where there is no id', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/things', { as: token({ sub: 'carol' }) });
    expectReplay(await scenario.post('/things', { as: token({ sub: 'carol', name: 'C' }) }), first);
    await scenario.post('/things', { as: token({ sub: 'dave' }) });
    expect(scenario.executions).toBe(2);
  });

  it.each([
    ['no identity at all', {}],
    ['an empty id', { id: '' }],
    ['an id that is null and no sub', { id: null }],
    ['an id that is an object', { id: { a: 1 } }],
    ['a fractional id', { id: 1.5 }],
  ])('C30 a user with %s is nobody', async (_, user) => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/things', { as: token(user) }), 'caller-unknown');
    expect(scenario.executions).toBe(0);
  });

  it('C30 an anonymous caller without a key may use a route where the key is optional', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/public-optional', { as: null, key: null })).status).toBe(201);
    expectProblem(await scenario.post('/public-optional', { as: null }), 'caller-unknown');
    expect(scenario.executions).toBe(1);
  });

  it('C30 a scope function that finds nobody is refused as well', async () => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/by-header'), 'caller-unknown');
    expect(scenario.executions).toBe(0);
  });
});
