import { Body, Controller, Get, Post, type ExecutionContext } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { payloadField, payloadKey } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import { Public } from '../../../support/http/callers.guard.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { useServer } from '../../../support/servers/use-server.js';

function headerNamed(name: string) {
  return (context: ExecutionContext): string | undefined =>
    context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers[name];
}

@Controller()
class KeysController {
  @Post('uuid')
  @Idempotent({ key: { syntax: 'uuid' } })
  uuid(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('own-syntax')
  @Idempotent({ key: { syntax: (key: string) => key.startsWith('order-') } })
  ownSyntax(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('derived')
  @Idempotent({ key: headerNamed('x-order') })
  derived(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('by-field')
  @Idempotent({ key: payloadField('order.id') })
  byField(@InScenario() scenario: Scenario, @Body() _order: object) {
    return scenario.response();
  }

  @Post('by-payload')
  @Idempotent({ key: payloadKey({ exclude: ['sentAt'] }), fingerprint: { exclude: ['sentAt'] } })
  byPayload(@InScenario() scenario: Scenario, @Body() _order: object) {
    return scenario.response();
  }
}

@Controller()
class CallersController {
  @Post('things')
  @Idempotent()
  create(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('by-header')
  @Idempotent({ caller: { scope: headerNamed('x-caller') } })
  byHeader(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post('public-optional')
  @Public()
  @Idempotent({ key: { required: false } })
  anonymousOptional(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

@Controller('decorated-class')
@Idempotent()
class DecoratedClassController {
  @Get()
  read(@InScenario() scenario: Scenario) {
    return scenario.response();
  }

  @Post()
  write(@InScenario() scenario: Scenario) {
    return scenario.response();
  }
}

/** Cases for which the contract suite has no routes. */
describe.each(platforms)('the key and the caller of a request on %s', (platform) => {
  const app = useServer(() =>
    startApp({
      platform,
      store: memoryStore(),
      controllers: [KeysController, CallersController, DecoratedClassController],
    }),
  );

  it('C21 GET and HEAD ignore the key and leave it unused, also where the class is decorated', async () => {
    const scenario = app.scenario();
    for (const method of ['GET', 'HEAD']) {
      const response = await scenario.send(method, '/decorated-class');
      expect(response).toMatchObject({ status: 200, replayed: false });
    }
    const first = await scenario.post('/decorated-class');
    expect(first.json).toEqual({ execution: 3 });
    expectReplay(await scenario.post('/decorated-class'), first);
  });

  it('can be required to be a UUID', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/uuid');
    expectReplay(await scenario.post('/uuid', { key: `"${scenario.key}"` }), first);
    expectProblem(await scenario.post('/uuid', { key: 'order-7' }), 'key-invalid');
    expect(scenario.executions).toBe(1);
  });

  it('can be required to pass a predicate', async () => {
    const scenario = app.scenario();
    const key = `order-${scenario.key}`;
    expect((await scenario.post('/own-syntax', { key })).status).toBe(201);
    expectProblem(await scenario.post('/own-syntax'), 'key-invalid');
    expect(scenario.executions).toBe(1);
  });

  it.each([undefined, null, 0, 'yes'])(
    'is the application’s mistake where the predicate returns %p',
    async (returned) => {
      const own = await startApp({
        platform,
        store: memoryStore(),
        controllers: [CallersController],
        options: { key: { required: false, syntax: () => returned as never } },
      });
      try {
        const scenario = own.scenario();
        expectProblem(await scenario.post('/things'), 'misconfigured');
        expect(scenario.executions).toBe(0);
      } finally {
        await own.close();
      }
    },
  );

  it('can come from a function of the context', async () => {
    const scenario = app.scenario();
    const headers = [['X-Order', scenario.id]] as const;
    const first = await scenario.post('/derived', { key: null, headers });
    expectReplay(await scenario.post('/derived', { key: null, headers }), first);
    expectProblem(await scenario.post('/derived'), 'key-missing');
    expect(scenario.executions).toBe(1);
  });

  describe('from the body', () => {
    const post = (scenario: Scenario, path: string, body: object) =>
      scenario.post(path, { key: null, json: body });

    it('is the value of a field', async () => {
      const scenario = app.scenario();
      const first = await post(scenario, '/by-field', { order: { id: 'o7' } });
      expectReplay(await post(scenario, '/by-field', { order: { id: 'o7' } }), first);
    });

    it('is rejected where it is not a string, or missing', async () => {
      const scenario = app.scenario();
      const notText = { order: { id: { no: 'text' } } };
      expectProblem(await post(scenario, '/by-field', notText), 'key-invalid');
      expectProblem(await post(scenario, '/by-field', { order: {} }), 'key-missing');
      expect(scenario.executions).toBe(0);
    });

    it('ignores the excluded fields of the payload', async () => {
      const scenario = app.scenario();
      const first = await post(scenario, '/by-payload', { order: 7, sentAt: 1 });
      expectReplay(await post(scenario, '/by-payload', { sentAt: 2, order: 7 }), first);
      await post(scenario, '/by-payload', { sentAt: 2, order: 8 });
      expect(scenario.executions).toBe(2);
    });
  });

  const token = (user: object) => `user:${JSON.stringify(user)}`;

  it.each([
    ['no identity at all', {}],
    ['an id that is null and no sub', { id: null }],
  ])('C30 a user with %s is an unknown caller', async (_, user) => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/things', { as: token(user) }), 'caller-unknown');
    expect(scenario.executions).toBe(0);
  });

  it.each([
    ['an empty id', { id: '' }],
    ['an empty id and a sub', { id: '', sub: 'alice' }],
    ['an id that is an object', { id: { a: 1 } }],
    ['a fractional id', { id: 1.5 }],
  ])('a user with %s is the application’s mistake, and no unknown caller', async (_, user) => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/things', { as: token(user) }), 'misconfigured');
    expect(scenario.executions).toBe(0);
  });

  it('C30 an anonymous caller without a key can call a route where the key is optional', async () => {
    const scenario = app.scenario();
    expect((await scenario.post('/public-optional', { as: null, key: null })).status).toBe(201);
    expectProblem(await scenario.post('/public-optional', { as: null }), 'caller-unknown');
    expect(scenario.executions).toBe(1);
  });

  it('C30 a request for which the scope function returns no caller is rejected', async () => {
    const scenario = app.scenario();
    expectProblem(await scenario.post('/by-header'), 'caller-unknown');
    expect(scenario.executions).toBe(0);
  });
});
