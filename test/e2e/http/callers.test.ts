import { Controller, Post, type ExecutionContext } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { Public } from '../../support/http/callers.guard.js';
import { combinations, useStores } from '../../support/http/combinations.js';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

interface CallerRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly user?: { readonly id: string; readonly tenant: string };
}

const requestOf = (context: ExecutionContext) => context.switchToHttp().getRequest<CallerRequest>();

@Controller()
class CallersController {
  @Post('things')
  @Idempotent()
  async create(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('by-header')
  @Idempotent({ scope: (context: ExecutionContext) => requestOf(context).headers['x-caller'] })
  async byHeader(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() { key }: { readonly key: string },
  ) {
    return { execution: await scenario.run(), key };
  }

  @Post('by-tenant-and-user')
  @Idempotent({
    scope: (context: ExecutionContext) => {
      const { tenant, id } = requestOf(context).user!;
      return [tenant, id];
    },
  })
  async byTenantAndUser(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('public')
  @Public()
  @Idempotent()
  async anonymousRejected(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('public-optional')
  @Public()
  @Idempotent({ required: false })
  async anonymousOptional(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('public-ignored')
  @Public()
  @Idempotent({ anonymous: 'ignore' })
  async anonymousIgnored(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }

  @Post('public-shared')
  @Public()
  @Idempotent({ anonymous: 'shared' })
  async anonymousShared(@InScenario() scenario: Scenario) {
    return { execution: await scenario.run() };
  }
}

const stores = useStores();
const token = (user: object) => `user:${JSON.stringify(user)}`;

describe.each(combinations)('callers on $platform with $store', ({ platform, store }) => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform,
      store: stores.fresh(store),
      controllers: [CallersController],
    });
  });

  afterAll(() => app.close());

  it('C23 a caller learns nothing about the keys of another by sending another payload', async () => {
    const scenario = app.scenario();
    await scenario.post('/things', { as: 'alice', json: { amount: 1 } });
    const bob = await scenario.post('/things', { as: 'bob', json: { amount: 2 } });
    expect(bob).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  it.each([':', '|', '/', '-', '.', '_', '#', ','])(
    'C24 no choice of scope and key around %j meets in one record',
    async (mark) => {
      const scenario = app.scenario();
      const { id } = scenario;
      const pairs = [
        { caller: `${id}x${mark}b`, key: 'c' },
        { caller: `${id}x`, key: `b${mark}c` },
        { caller: `${id}x${mark}`, key: `b${mark}c` },
        { caller: `${id}x`, key: `${mark}b${mark}c` },
      ];
      for (const { caller, key } of pairs) {
        const response = await scenario.post('/by-header', {
          key: `"${key}"`,
          headers: [['X-Caller', caller]],
        });
        expect(response).toMatchObject({ status: 201, replayed: false, json: { key } });
      }
      expect(scenario.executions).toBe(pairs.length);
    },
  );

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

  it.each([
    ['missing', null],
    ['malformed', '"abc'],
    ['valid', 'k'],
  ])('C25 without credentials a %s key changes nothing: 401', async (_, key) => {
    const scenario = app.scenario();
    const response = await scenario.post('/things', { as: null, key });
    expect(response.status).toBe(401);
    expect(response.json).toEqual({ statusCode: 401, message: 'Unauthorized' });
    expect(scenario.executions).toBe(0);
  });

  it('C27 who has lost the right gets 403 and nothing of what was stored', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/things');
    scenario.forbidden.add('alice');
    const refused = await scenario.post('/things');
    expect(refused).toMatchObject({ status: 403, replayed: false });
    expect(refused.text).not.toContain('execution');
    scenario.forbidden.clear();
    expectReplay(await scenario.post('/things'), first);
  });

  it('C30 anonymous callers never meet: by default they are refused', async () => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/public', { as: null }), 'caller-unknown');
    expectProblem(await scenario.post('/public', { as: null }), 'caller-unknown');
    expect(scenario.executions).toBe(0);
    expect((await scenario.post('/public', { as: 'alice' })).status).toBe(201);
  });

  it('C30 the key is looked at before the caller', async () => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/public', { as: null, key: null }), 'key-missing');
    expectProblem(await scenario.post('/public', { as: null, key: '"abc' }), 'key-invalid');
    expect(scenario.executions).toBe(0);
  });

  it('C30 an anonymous caller without a key may use a route where the key is optional', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/public-optional', { as: null, key: null })).status).toBe(201);
    expectProblem(await scenario.post('/public-optional', { as: null }), 'caller-unknown');
    expect(scenario.executions).toBe(1);
  });

  it("C30 anonymous: 'ignore' runs every anonymous request, and protects known callers", async () => {
    const scenario = app.scenario();
    for (const execution of [1, 2]) {
      const response = await scenario.post('/public-ignored', { as: null });
      expect(response).toMatchObject({ status: 201, replayed: false, json: { execution } });
    }
    const first = await scenario.post('/public-ignored', { as: 'alice' });
    expectReplay(await scenario.post('/public-ignored', { as: 'alice' }), first);
  });

  it("C30 anonymous: 'shared' makes one caller of all that are anonymous", async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/public-shared', { as: null });
    expectReplay(await scenario.post('/public-shared', { as: null }), first);
    expect((await scenario.post('/public-shared', { as: 'alice' })).replayed).toBe(false);
    expect(scenario.executions).toBe(2);
  });

  it('C30 a scope function that finds nobody is refused as well', async () => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/by-header'), 'caller-unknown');
    expect(scenario.executions).toBe(0);
  });

  it('C31a tenant and user both enter the scope', async () => {
    const scenario = app.scenario();
    const callers = [
      { tenant: 'acme', id: 'alice' },
      { tenant: 'globex', id: 'alice' },
      { tenant: 'acme', id: 'bob' },
      { tenant: 'acmea', id: 'lice' },
    ];
    for (const user of callers) {
      expect((await scenario.post('/by-tenant-and-user', { as: token(user) })).replayed).toBe(
        false,
      );
    }
    for (const user of callers) {
      expect((await scenario.post('/by-tenant-and-user', { as: token(user) })).replayed).toBe(true);
    }
    expect(scenario.executions).toBe(callers.length);
  });
});
