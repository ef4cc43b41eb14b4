import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  Body,
  Controller,
  type ExecutionContext,
  Get,
  Header,
  Logger,
  Post,
  Res,
} from '@nestjs/common';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyMeter,
  type IdempotencyOptions,
  Idempotent,
  severityOf,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { payloadField, payloadKey } from 'nestjs-idempotency/message';
import { Public } from '../../../support/http/callers.guard.js';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../../support/http/expectations.js';
import type { ExpressResponse, FastifyReply } from '../../../support/http/reply.js';
import { controllerOf, respond } from '../../../support/http/routes-of.js';
import { InScenario, Scenario, SCENARIO_HEADER } from '../../../support/http/scenario.js';
import { startApp, type TestApp } from '../../../support/http/start-app.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { useServer } from '../../../support/servers/use-server.js';
import { slowStore } from '../../../support/stores/slow-store.js';

function headerNamed(name: string) {
  return (context: ExecutionContext): string | undefined =>
    context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers[name];
}

const WithBody: MethodDecorator = (target, name) => Body()(target, name, 1);

const KeysController = controllerOf('KeysController', {
  uuid: [Idempotent({ key: { syntax: 'uuid' } }), respond],
  'own-syntax': [
    Idempotent({ key: { syntax: (key: string) => key.startsWith('order-') } }),
    respond,
  ],
  derived: [Idempotent({ key: headerNamed('x-order') }), respond],
  'by-field': [Idempotent({ key: payloadField('order.id') }), WithBody, respond],
  'by-payload': [
    Idempotent({
      key: payloadKey({ exclude: ['sentAt'] }),
      fingerprint: { exclude: ['sentAt'] },
    }),
    WithBody,
    respond,
  ],
});

const CallersController = controllerOf('CallersController', {
  things: [Idempotent(), respond],
  'by-header': [Idempotent({ caller: { scope: headerNamed('x-caller') } }), respond],
  'public-optional': [Public(), Idempotent({ key: { required: false } }), respond],
});

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

  describe('where a predicate of the module returns anything else', () => {
    let returned: unknown;
    const own = useServer(() =>
      startApp({
        platform,
        store: memoryStore(),
        controllers: [CallersController],
        options: { key: { required: false, syntax: () => returned as never } },
      }),
    );

    it.each([undefined, null, 0, 'yes'])('is the application’s mistake: %p', async (value) => {
      returned = value;
      const scenario = own.scenario();
      expectProblem(await scenario.post('/things'), 'misconfigured');
      expect(scenario.executions).toBe(0);
    });
  });

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

interface Payment {
  readonly amount: number;
  readonly note?: string;
}

/** The `toJSON` of a value that `toJSON` returned is not called. */
class Converted {
  constructor(private readonly json: unknown) {}

  toJSON() {
    return this.json;
  }
}

type Choosing = Readonly<Record<string, (payment: Payment & { ammount?: never }) => unknown>>;

/** Functions that would compare nothing of any payment; canonical-json.test.ts lists the values that do so. */
const SAYING_NOTHING: Choosing = {
  'a missing member': ({ ammount }) => ammount,
  'a nested promise': ({ amount }) => [Promise.resolve(amount)],
  'a Set from a nested toJSON': ({ amount }) => ({
    id: 1,
    paid: new Converted([new Set([amount])]),
  }),
  'undefined from a nested toJSON': () => ({ id: 1, amount: new Converted(undefined) }),
};

/** Functions that find nothing to compare: a name is misspelt, or the client omitted the member. */
const MISSING_ALL: Choosing = {
  'only missing members': ({ ammount }) => ({ ammount }),
  'a list of missing members': ({ ammount }) => [ammount],
  'lists of missing members': ({ ammount }) => ({ all: [[ammount, { ammount }]] }),
  'such a nested object': ({ ammount }) => ({ id: 1, paid: [{ ammount, to: ammount }] }),
  'such an object from toJSON': ({ ammount }) => [1, new Converted({ ammount })],
  'an invalid date': ({ ammount }) => ({ at: new Date(ammount!) }),
};

const chooser = (path: string): string => decodeURIComponent(path.split('/').at(-1)!);

type Compare = Exclude<IdempotencyOptions['fingerprint'], undefined>;

const comparing = (fingerprint: Compare) => [Idempotent({ fingerprint }), respond] as const;

const ComparingController = controllerOf('ComparingController', {
  'missing-all/:what': comparing(({ path, body }) => MISSING_ALL[chooser(path)]!(body as Payment)),
  'comparing-a-list': comparing(({ body }) => listed(body as Payment)),
  'comparing-nothing/:what': comparing(({ path, body }) =>
    SAYING_NOTHING[chooser(path)]!(body as Payment),
  ),
  'comparing-what-is-there': comparing(({ body }) => chosen(body as Payment)),
});

/** An optional member may be undefined; a date is compared as its text. */
function chosen({ amount, note }: Payment): unknown {
  return { amount, note, at: new Date(0) };
}

function listed({ amount, note }: Payment): unknown {
  return [amount, note];
}

describe.each(platforms)('a function given as "fingerprint" on %s', (platform) => {
  const logged = new LoggedLines();
  const app = useServer(() =>
    startApp({
      platform,
      store: slowStore(),
      controllers: [ComparingController],
      configure: (nest) => nest.useLogger(logged),
    }),
  );
  afterAll(() => Logger.overrideLogger(false));

  it.each(Object.keys(SAYING_NOTHING))(
    'fails the request and logs the cause where it returns %s',
    async (what) => {
      const scenario = app.scenario();
      logged.lines.length = 0;
      for (const amount of [1, 1000]) {
        const path = `/comparing-nothing/${encodeURIComponent(what)}`;
        const response = await scenario.post(path, { json: { amount } });
        expect(response).toMatchObject({ status: 500, replayed: false });
      }
      expect(scenario.executions).toBe(0);
      const errors = logged.lines.filter(({ level }) => level === 'error');
      expect(errors.map(({ message }) => message).join('\n')).toContain(
        'option "fingerprint" of ComparingController.comparing-nothing/:what returned',
      );
    },
  );

  it.each(Object.keys(MISSING_ALL))(
    'finds %s: the request is rejected because its content cannot be compared',
    async (what) => {
      const scenario = app.scenario();
      for (const amount of [1, 1000]) {
        const path = `/missing-all/${encodeURIComponent(what)}`;
        expectProblem(await scenario.post(path, { json: { amount } }), 'content-invalid');
      }
      expect(scenario.executions).toBe(0);
    },
  );

  it.each([
    ['list absent members, which are compared as null', '/comparing-a-list', { note: null }],
    ['omit absent members', '/comparing-what-is-there', { other: 2 }],
  ])('can %s', async (_, path, same) => {
    const scenario = app.scenario();
    const first = await scenario.post(path, { json: { amount: 1 } });
    expectReplay(await scenario.post(path, { json: { amount: 1, ...same } }), first);
    for (const json of [{ amount: 2 }, { amount: 1, note: '' }]) {
      expectProblem(await scenario.post(path, { json }), 'key-reused');
    }
    expect(scenario.executions).toBe(1);
  });
});

let runs = 0;

const run = () => ({ run: (runs += 1) });

const bypassing = (operation: string, options: IdempotencyOptions) =>
  ({ [operation]: [Idempotent({ operation, ...options }), run] }) as const;

const BypassController = controllerOf('BypassController', {
  ...bypassing('optional', { key: { required: false } }),
  ...bypassing('required', {}),
  ...bypassing('ignored', { caller: { scope: () => undefined, anonymous: 'ignore' } }),
  ...bypassing('disabled', { enabled: () => false }),
  ...bypassing('own-name', { key: { from: 'X-Order-Reference', required: false } }),
  ...bypassing('unclear-syntax', { key: { required: false, syntax: (() => undefined) as never } }),
});

@Controller()
class OddController {
  @Get('safe')
  @Idempotent({ operation: 'safe', key: { required: false } })
  safe() {
    return run();
  }

  @Post('odd-fields')
  @Header('X-Fixed', 'a')
  @Idempotent({ operation: 'odd-fields' })
  oddFields(@Res({ passthrough: true }) response: ExpressResponse | FastifyReply) {
    const raw = 'raw' in response ? response.raw : response;
    for (const [name, value] of [
      ['x-bigint', 5n],
      ['x-date', new Date(0)],
      ['x-nan', NaN],
    ] as const) {
      raw.setHeader(name, value as never);
    }
    return run();
  }
}

describe.each(platforms)('a request without protection on %s', (platform) => {
  const logger = new LoggedLines();
  let app: TestApp;
  let events: IdempotencyEvent[] = [];
  beforeAll(async () => {
    app = await startApp({
      platform,
      store: memoryStore(),
      controllers: [BypassController, OddController],
      guard: { canActivate: () => true },
      options: { caller: { scope: () => 'alice' } },
      configure: () => {
        Logger.overrideLogger(logger);
      },
    });
    app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => {
      events.push(event);
    });
  });
  afterAll(() => app.close());
  let scenario: Scenario;
  beforeEach(() => {
    scenario = app.scenario();
    runs = 0;
    events = [];
    logger.lines.length = 0;
  });

  const send = async (path: string, headers: Record<string, string> = {}, method = 'POST') => {
    const ofScenario = { [SCENARIO_HEADER]: scenario.id, ...headers };
    const url = `http://127.0.0.1:${app.port}/${path}`;
    const response = await fetch(url, { method, headers: ofScenario });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  const requests = (operation: string) =>
    app.nest.get(IdempotencyMeter, { strict: false }).read().operations.get(operation)!.requests;

  const countOf = (operation: string, reason: string): number =>
    (requests(operation).http as Partial<Record<string, number>>)[`unprotected_${reason}`] ?? 0;

  it.each([
    ['optional', 'no_key', 'notice'],
    ['ignored', 'no_caller', 'notice'],
    ['disabled', 'disabled', 'info'],
  ])('is an event and a number by its reason: %s [P30]', async (path, reason, severity) => {
    const before = countOf(path, reason);
    const headers = path === 'optional' ? {} : { 'idempotency-key': 'k' };
    for (const run of [1, 2]) expect(JSON.parse((await send(path, headers)).text)).toEqual({ run });
    const event = { type: 'unprotected', operation: path, transport: 'http', reason };
    expect(events).toEqual([event, event]);
    expect(events.map(severityOf)).toEqual([severity, severity]);
    expect(requests(path)).toEqual({
      http: { unprotected: 0, [`unprotected_${reason}`]: before + 2 },
    });
    expect(logger.own).toEqual([]);
  });

  it('is neither for a safe method', async () => {
    await send('safe', {}, 'GET');
    expect(runs).toBe(1);
    expect(events).toEqual([]);
  });

  it.each([
    ['required', 400, 'invalid_request'],
    ['optional', 201, 'unprotected'],
  ])(
    'that has its key under another name is reported, once: %s [P28]',
    async (path, status, type) => {
      const near = [
        ...['X-Idempotency-Key', 'Idempotency_Key', 'IdempotencyKey', 'Idempotent-Key'],
        ...['X-Idempotent-Key', 'Idempotency-Key-', 'Idempotancy-Key', 'Idempotency-Token'],
      ];
      for (const name of [...near, ...near]) {
        const response = await send(path, { [name]: 'the-secret-value' });
        expect(response.status).toBe(status);
      }
      const found = events.flatMap((event) => (event.type === 'key_misnamed' ? event.name : []));
      const names = near.map((name) => name.toLowerCase());
      expect(found).toEqual([...names, ...names]);
      expect(events.filter((event) => event.type === type)).toHaveLength(2 * near.length);
      expect(logger.own).toHaveLength(near.length);
      for (const name of names) {
        expect(logger.own).toContainEqual(
          expect.stringMatching(`^warn: key_misnamed in ${path}: .*"${name}"`),
        );
      }
      expect(JSON.stringify([events, logger.lines])).not.toContain('the-secret-value');
    },
  );

  it('that has no such name is not', async () => {
    await send('optional', { 'x-request-id': 'a', 'idempotent-replayed': 'b', 'x-api-key': 'c' });
    await send('own-name', { 'x-order-ref': 'a' });
    expect(events.map(({ type }) => type)).toEqual(['unprotected', 'unprotected']);
    await send('own-name', { 'x-order_reference': 'a' });
    await send('own-name', { 'idempotency-key': 'a' });
    const names = events.flatMap((event) => (event.type === 'key_misnamed' ? event.name : []));
    expect(names).toEqual(['x-order_reference', 'idempotency-key']);
  });

  it('with a key is refused where "key.syntax" returns nothing, and does not run', async () => {
    const error = jest.spyOn(Logger.prototype, 'error').mockReturnValue(undefined);
    const response = await send('unclear-syntax', { 'idempotency-key': 'k' });
    expect(response.status).toBe(500);
    expect(response.text).toContain('idempotency_options_invalid');
    expect(runs).toBe(0);
    expect(error.mock.calls[0]![0]).toMatch(
      /"key.syntax" must return true or false .*returned undefined/,
    );
    error.mockRestore();
  });

  it('is not what a replay of header fields is that are no strings: it has what Node sent', async () => {
    const first = await send('odd-fields', { 'idempotency-key': 'odd' });
    const again = await send('odd-fields', { 'idempotency-key': 'odd' });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    for (const name of ['x-bigint', 'x-date', 'x-nan']) {
      expect([name, again.headers.get(name)]).toEqual([name, first.headers.get(name)]);
    }
    expect(first.headers.get('x-bigint')).toBe('5');
    expect(runs).toBe(1);
  });
});
