import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  createParamDecorator,
  type DynamicModule,
  type ExecutionContext,
  HttpCode,
  type INestApplication,
  Module,
  type NestInterceptor,
  Post,
  Req,
  Res,
  Scope,
  StreamableFile,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { lastValueFrom, tap } from 'rxjs';
import { type AdaptedRequest, adapters, type SendAdapted } from '../../../support/http/adapters.js';
import { type Platform, platforms } from '../../../support/http/combinations.js';
import {
  expectProblem,
  expectReplay,
  type ProblemName,
  problems,
} from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import {
  type ExpressResponse,
  type FastifyReply,
  type Reply,
  takeRaw,
} from '../../../support/http/reply.js';
import {
  after,
  controllerOf,
  native,
  respond,
  routesOf,
  withReply,
} from '../../../support/http/routes-of.js';
import {
  InScenario,
  Scenario,
  SCENARIO_HEADER,
  scenarioOf,
} from '../../../support/http/scenario.js';
import { startApp, type StartAppOptions } from '../../../support/http/start-app.js';
import type { RawResponse } from '../../../support/http/wire/raw-response.js';
import { IdempotencyInterceptor } from '../../../support/internals/nest.js';
import { useServer } from '../../../support/servers/use-server.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { Tally } from '../../../support/waiting/tally.js';

/** How each PDF begins: bytes that are no UTF-8. */
const PDF = Buffer.from('255044462d312e370a25e2e3cfd30a', 'hex');
const LARGE = 'é'.repeat(20_000);

/** The same handlers, with and without the library. */
const paymentsOf = (prefix: string, ...above: MethodDecorator[]) =>
  // Operations are named by it.
  controllerOf(
    prefix,
    {
      json: [...above, after((execution) => ({ execution, payee: 'Café Zoë' }))],
      text: [
        ...above,
        ...withReply((execution, reply: Reply) => {
          reply.header('Content-Type', 'text/plain; charset=utf-8');
          reply.header('Set-Cookie', ['a=1; Path=/', 'b=2']).header('X-Own', 'kept');
          return `Café, execution ${execution}`;
        }),
      ],
      bytes: [...above, after(() => new StreamableFile(PDF, { type: 'application/pdf' }))],
      nothing: [HttpCode(204), ...above, after(() => undefined)],
      large: [...above, after((execution) => ({ execution, text: LARGE }))],
      native: [
        ...above,
        ...native((_, reply: Reply) => {
          reply.status(202).header('Content-Type', 'application/pdf').send(PDF);
        }),
      ],
      streamed: [
        ...above,
        after(() => {
          const many = Buffer.alloc(300_000, PDF);
          const options = { type: 'application/pdf', length: 600_000 + PDF.length };
          return new StreamableFile(Readable.from([PDF, many, many]), options);
        }),
      ],
    },
    Controller(prefix),
  );

/** Authenticates without a look at the socket, which adapters lack. */
const guard = {
  canActivate: (context: ExecutionContext) => {
    context.switchToHttp().getRequest<{ user?: object }>().user = { id: 'alice' };
    return true;
  },
};

describe.each(adapters)('behind $name on $platform,', ({ platform, repeats, isMock, adapt }) => {
  const surroundings = new Tally();
  const ended = new Tally();
  const app = useServer(() =>
    startApp({
      platform,
      guard,
      store: memoryStore(),
      options: {
        telemetry: {
          start: () => () => undefined,
          around: () => {
            surroundings.add();
            return { run: (work) => work(), ended: () => void ended.add() };
          },
        },
      },
      controllers: [
        paymentsOf('plain'),
        paymentsOf('required', Idempotent()),
        paymentsOf('optional', Idempotent({ key: { required: false } })),
        paymentsOf('small', Idempotent({ outcome: { maxBytes: 100_000 } })),
      ],
    }),
  );
  let scenario: Scenario;
  let send: SendAdapted;
  beforeEach(() => {
    scenario = app.scenario();
    send = adapt(app.nest);
  });

  const request = (
    path: string,
    key: string | readonly string[] = scenario.key,
    more: Partial<AdaptedRequest> = {},
  ): AdaptedRequest => ({
    path,
    body: '{"amount":1}',
    ...more,
    headers: {
      host: 'shop.example',
      'content-type': 'application/json',
      [SCENARIO_HEADER]: scenario.id,
      'idempotency-key': key,
      ...more.headers,
    },
  });

  const expectRejection = (response: RawResponse, problem: ProblemName) => {
    if (isMock) expect(response.json).toMatchObject({ code: problems[problem].code });
    else expectProblem(response, problem);
  };

  it.each(['json', 'bytes', 'nothing', 'large', ...(isMock ? [] : ['text', 'native'])])(
    '%s is sent as without the library, and replayed',
    async (path) => {
      const plain = await send(request(`/plain/${path}`));
      for (const form of ['required', 'optional']) {
        const of = app.scenario();
        const sent = request(`/${form}/${path}`, of.key, { headers: { [SCENARIO_HEADER]: of.id } });
        const first = await send(sent);
        const retry = await send(sent);
        expect(first.text.slice(0, 300)).toBe(plain.text.slice(0, 300));
        expect({ form, executions: of.executions }).toEqual({ form, executions: 1 });
        expect(first.status).toBe(plain.status);
        expect(first.body.toString('hex')).toBe(plain.body.toString('hex'));
        expect(first.all('content-length')).toEqual(plain.all('content-length'));
        expect(first.all('set-cookie')).toEqual(plain.all('set-cookie'));
        expectReplay(retry, first);
        expect(retry.all('set-cookie')).toEqual([]);
      }
    },
  );

  it('a file that is too large to be kept arrives whole', async () => {
    const plain = await send(request('/plain/streamed'));
    const first = await send(request('/small/streamed'));
    expect(first.body.equals(plain.body)).toBe(true);
    expectRejection(await send(request('/small/streamed')), 'response-not-kept');
    expect(scenario.executions).toBe(2);
  });

  it('a request without a body is no request with an unread one', async () => {
    const { 'content-type': _, ...headers } = request('').headers;
    const sent = { path: '/required/json', headers };
    const first = await send(sent);
    expect({ status: first.status, text: first.text }).toMatchObject({ status: 201 });
    expectReplay(await send(sent), first);
  });

  it('what surrounds a request ends once, though its response may never close', async () => {
    const before = ended.count;
    await send(request('/required/json'));
    await send(request('/required/json'));
    await ended.reached(before + 2);
    expect(ended.count).toBe(surroundings.count);
  });

  it('a name in another case is the same field', async () => {
    const { 'idempotency-key': key = '', ...headers } = request('').headers;
    const sent = {
      path: '/required/json',
      headers: { ...headers, 'IDEMPOTENCY-Key': key },
      body: '{}',
    };
    const first = await send(sent);
    expectReplay(await send(sent), first);
    expect(scenario.executions).toBe(1);
  });

  it('a missing key is refused', async () => {
    const { 'idempotency-key': _, ...headers } = request('').headers;
    expectRejection(await send({ path: '/required/json', headers, body: '{}' }), 'key-missing');
    expect(scenario.executions).toBe(0);
  });

  // serverless-http passes on the last line alone.
  const shows = repeats === 'dropped' ? it.skip : it;
  shows('a key that was sent twice is refused', async () => {
    for (const keys of [
      ['key-1', 'key-1'],
      ['"key-1"', '"key-2"'],
    ]) {
      expectRejection(await send(request('/required/json', keys)), 'key-invalid');
      expectRejection(await send(request('/optional/json', keys)), 'key-invalid');
    }
    expect(scenario.executions).toBe(0);
  });
});

describe('on Fastify, with a synchronous store and asynchronous hooks', () => {
  interface HookedFastify {
    addHook(
      name: 'onSend',
      hook: (request: unknown, reply: unknown, payload: unknown) => Promise<unknown>,
    ): unknown;
    addHook(
      name: 'onRequest',
      hook: (request: unknown, reply: FastifyReply) => Promise<void>,
    ): void;
  }

  /** Like another framework that is given the response: it sets its own prototype on it. */
  function respondElsewhere(_request: IncomingMessage | undefined, raw: ServerResponse): void {
    const own = Object.create(Object.getPrototypeOf(raw) as object) as object;
    Object.setPrototypeOf(raw, own);
    raw.statusCode = 201;
    raw.end('elsewhere');
  }

  const HookedController = controllerOf(
    'HookedController',
    {
      plain: respond,
      'at-once': () => ({ at: 'once' }),
      chunked: withReply((_, reply: FastifyReply) => {
        reply.header('Transfer-Encoding', 'chunked');
        return 'all of it';
      }),
      file: withReply((_, reply: FastifyReply) => {
        reply.header('X-Own', 'kept');
        return new StreamableFile(Buffer.from('a file'), { type: 'text/csv' });
      }),
      elsewhere: native((_, reply: FastifyReply) => {
        respondElsewhere(undefined, takeRaw(reply));
      }),
    },
    Idempotent(),
  );

  @Controller()
  class UnprotectedController {
    @Post('unprotected')
    unprotected() {
      return { is: 'unprotected' };
    }
  }

  let passed: string[] = [];
  let types: string[] = [];

  const app = useServer(() =>
    startApp({
      platform: 'fastify',
      store: memoryStore(),
      controllers: [HookedController, UnprotectedController],
      configure: (nest: INestApplication) => {
        const fastify = nest.getHttpAdapter().getInstance() as HookedFastify;
        fastify.addHook('onRequest', async (_, reply) => {
          // Wraps the method on the prototype of the response's class, as tracers do.
          const prototype = Object.getPrototypeOf(reply.raw) as ServerResponse;
          const end: unknown = Reflect.get(prototype, 'end');
          Object.setPrototypeOf(
            reply.raw,
            Object.create(prototype, {
              end: {
                configurable: true,
                writable: true,
                value(this: ServerResponse, ...args: unknown[]) {
                  return Reflect.apply(end as () => unknown, this, args);
                },
              },
            }) as object,
          );
        });
        fastify.addHook('onSend', async (_request, _reply, payload) => {
          passed.push(payload === undefined ? 'nothing' : 'a payload');
          types.push(typeof payload);
          await new Promise(setImmediate);
          return payload;
        });
      },
    }),
  );

  beforeEach(() => {
    passed = [];
    types = [];
  });

  it.each(['/plain', '/at-once', '/chunked'])(
    'sends the response of %s once and completely',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(first.text).toBe(
        { '/plain': '{"execution":1}', '/at-once': '{"at":"once"}' }[path] ?? 'all of it',
      );
      expect(passed).toEqual(['a payload']);
      const second = await scenario.post(path);
      expect(second).toMatchObject({ status: 201, replayed: true, text: first.text });
      expect(passed).toEqual(['a payload', 'a payload']);
    },
  );

  it.each(['/plain', '/file'])(
    'passes the payload of %s, first and replayed, to later hooks as a string',
    async (path) => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expectReplay(await scenario.post(path), first);
      expect(types).toEqual(['string', 'string']);
    },
  );

  it('replays the header fields in their order', async () => {
    const scenario = app.scenario();
    const orders: string[][] = [];
    for (let request = 0; request < 2; request += 1) {
      const { lines } = await scenario.post('/file');
      const names = lines.map(([name]) => name.toLowerCase());
      orders.push(names.filter((name) => ['x-own', 'content-type'].includes(name)));
    }
    expect(orders).toEqual([
      ['x-own', 'content-type'],
      ['x-own', 'content-type'],
    ]);
  });

  it('records a response that another framework sends', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/elsewhere');
    expect(first).toMatchObject({ status: 201, text: 'elsewhere', replayed: false });
    expectReplay(await scenario.post('/elsewhere'), first);
    expect(scenario.executions).toBe(1);
  });

  it('leaves the response of an unprotected route unchanged', async () => {
    const response = await app.scenario().post('/unprotected');
    expect(response).toMatchObject({ status: 201, text: '{"is":"unprotected"}' });
  });
});

describe('foreign middleware', () => {
  const SEALED_HEADER = 'x-sealed-response';

  type AnyRequest = IncomingMessage | { readonly raw: IncomingMessage };
  type AnyReply = ExpressResponse | FastifyReply;

  /** The response, of which Nest does not know that the handler has it. In a function: Nest awaits Fastify's reply. */
  const TheResponse = createParamDecorator(
    (_: unknown, context: ExecutionContext) => () => context.switchToHttp().getResponse<AnyReply>(),
  );

  type Listener = (request: IncomingMessage, response: ServerResponse) => void;

  /** Another application inside of this one. Express gives each response the prototype of its application. */
  const elsewhere = new ExpressAdapter().getInstance<
    Listener & { use(listener: Listener): void }
  >();
  elsewhere.use((_request, response) => {
    response.statusCode = 201;
    response.setHeader('X-Own', 'kept').end('sent elsewhere');
  });

  function respondElsewhere(request: AnyRequest, response: ServerResponse): void {
    elsewhere('raw' in request ? request.raw : request, response);
  }

  @Controller()
  class PlainController {
    @Post('plain')
    @Idempotent()
    async plain(@InScenario() scenario: Scenario) {
      return { execution: await scenario.run() };
    }

    @Post('elsewhere')
    @Idempotent()
    async elsewhere(
      @InScenario() scenario: Scenario,
      @Req() request: AnyRequest,
      @Res() reply: AnyReply,
    ) {
      await scenario.run();
      respondElsewhere(request, takeRaw(reply));
    }

    @Post('elsewhere/unannounced')
    @Idempotent()
    async unannounced(
      @InScenario() scenario: Scenario,
      @Req() request: AnyRequest,
      @TheResponse() reply: () => AnyReply,
    ) {
      await scenario.run();
      respondElsewhere(request, takeRaw(reply()));
    }
  }

  /** Instrumentation that makes `end` read-only. */
  function sealEnd(app: INestApplication): void {
    app.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
      if (request.headers[SEALED_HEADER] !== undefined) {
        Object.defineProperty(response, 'end', { value: response.end.bind(response) });
      }
      next();
    });
  }

  describe.each(platforms)('unusual surroundings on %s', (platform) => {
    const app = useServer(() =>
      startApp({
        platform,
        store: slowStore(),
        controllers: [PlainController],
        configure: sealEnd,
      }),
    );

    /** Calls the interceptor as another interceptor around it may. */
    async function handing<Result>(
      handle: (next: CallHandler) => unknown,
      work: () => Promise<Result>,
    ): Promise<Result> {
      const intercept = Reflect.get(IdempotencyInterceptor.prototype, 'intercept');
      const calls = jest
        .spyOn(IdempotencyInterceptor.prototype, 'intercept')
        .mockImplementation(function (this: IdempotencyInterceptor, context, next) {
          return intercept.call(this, context, { handle: () => handle(next) } as CallHandler);
        });
      try {
        const result = await work();
        expect(calls).toHaveBeenCalled();
        return result;
      } finally {
        calls.mockRestore();
      }
    }

    it('protects a handler whose call handler returns a promise', async () => {
      const scenario = app.scenario();
      const post = () => scenario.post('/plain');
      const first = await handing((next) => lastValueFrom(next.handle()), post);
      expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
      expectReplay(await post(), first);
      expect(scenario.executions).toBe(1);
    });

    it.each([
      ['throws', () => { throw new TypeError('not today'); }], // prettier-ignore
      ['returns no stream', () => undefined],
    ])('responds with 500 and frees the key when the call handler %s', async (_how, handle) => {
      const scenario = app.scenario();
      const post = () => scenario.post('/plain');
      expect(await handing(handle, post)).toMatchObject({ status: 500, replayed: false });
      expect(scenario.executions).toBe(0);
      expect(await post()).toMatchObject({ status: 201, json: { execution: 1 } });
    });

    it('responds with 500 before the handler runs when the response cannot be patched', async () => {
      const scenario = app.scenario();
      const sealed = await scenario.post('/plain', { headers: [[SEALED_HEADER, '1']] });
      expect(sealed).toMatchObject({ status: 500, replayed: false });
      expect(scenario.executions).toBe(0);
      expect(await scenario.post('/plain')).toMatchObject({ status: 201, json: { execution: 1 } });
    });

    it('records the response of another application that a handler passes its response to', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/elsewhere');
      expect(first).toMatchObject({ status: 201, text: 'sent elsewhere', replayed: false });
      expectReplay(await scenario.post('/elsewhere'), first);
      expect(scenario.executions).toBe(1);
    });

    it('does not run an operation again whose response was sent past the recorder', async () => {
      const scenario = app.scenario();
      const path = '/elsewhere/unannounced';
      expect(await scenario.post(path)).toMatchObject({ status: 201, text: 'sent elsewhere' });
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
      expect(scenario.executions).toBe(1);
    });
  });
});

describe('seen values', () => {
  type AnyRequest = Parameters<typeof scenarioOf>[0];

  const note = (request: AnyRequest, seen: unknown) => scenarioOf(request).notes.push(seen);

  class Seeing implements NestInterceptor {
    intercept(context: ExecutionContext, next: CallHandler) {
      const request = context.switchToHttp().getRequest<AnyRequest>();
      return next.handle().pipe(tap((value) => note(request, value)));
    }
  }

  const PlainController = controllerOf('PlainController', { value: [Idempotent(), respond] });

  const SeenFromMethod = controllerOf('SeenFromMethod', {
    value: [Idempotent(), UseInterceptors(Seeing), respond],
  });

  const SeenFromClass = controllerOf(
    'SeenFromClass',
    { value: [Idempotent(), respond] },
    UseInterceptors(Seeing),
  );

  @Module({})
  class ModuleOfApp {}

  const seenFromApp = (scope: Scope): DynamicModule => ({
    module: ModuleOfApp,
    providers: [{ provide: APP_INTERCEPTOR, useClass: Seeing, scope }],
  });

  type Send = (this: object, body: unknown) => unknown;

  /** As middleware does that logs bodies. */
  const seeing = (request: AnyRequest, response: object, method: 'send' | 'json') => {
    const original = Reflect.get(response, method) as Send;
    const seen: Send = function (this: object, body) {
      note(request, body);
      return original.call(this, body);
    };
    Object.assign(response, { [method]: seen });
  };

  interface HookedFastify {
    addHook(name: 'onRequest', hook: (request: AnyRequest, reply: object) => Promise<void>): void;
    addHook(
      name: 'preSerialization',
      hook: (request: AnyRequest, reply: unknown, value: unknown) => Promise<unknown>,
    ): void;
  }

  const fastifyOf = (nest: INestApplication) =>
    nest.getHttpAdapter().getInstance() as HookedFastify;

  type Surroundings = Pick<StartAppOptions, 'imports' | 'configure'> & {
    readonly controller?: Type;
  };

  const EVERYWHERE: Record<string, Surroundings> = {
    'an interceptor of the method': { controller: SeenFromMethod },
    'an interceptor of the class': { controller: SeenFromClass },
    'a global interceptor': { configure: (nest) => nest.useGlobalInterceptors(new Seeing()) },
    'an interceptor of a module': { imports: [seenFromApp(Scope.DEFAULT)] },
    'a request-scoped interceptor of a module': { imports: [seenFromApp(Scope.REQUEST)] },
  };

  const ON: Record<Platform, Record<string, Surroundings>> = {
    express: Object.fromEntries(
      (['send', 'json'] as const).map((method): [string, Surroundings] => [
        `middleware with its own ${method}()`,
        {
          configure: (nest) =>
            nest.use((request: AnyRequest, response: object, next: () => void) => {
              seeing(request, response, method);
              next();
            }),
        },
      ]),
    ),
    fastify: {
      'a hook with its own send()': {
        configure: (nest) =>
          fastifyOf(nest).addHook('onRequest', async (request, reply) => {
            seeing(request, reply, 'send');
          }),
      },
      'a preSerialization hook': {
        configure: (nest) =>
          fastifyOf(nest).addHook('preSerialization', async (request, _reply, value) => {
            note(request, value);
            return value;
          }),
      },
    },
  };

  describe.each(platforms)('on %s, the value of a replay is seen by', (platform) => {
    describe.each(Object.entries({ ...EVERYWHERE, ...ON[platform] }))(
      '%s',
      (_name, surroundings) => {
        const {
          controller = PlainController,
          imports = [],
          configure = () => undefined,
        } = surroundings;
        const app = useServer(() =>
          startApp({
            platform,
            store: memoryStore(),
            controllers: [controller],
            imports,
            configure,
          }),
        );

        it('as it sees that of the first response', async () => {
          const scenario = app.scenario();
          const first = await scenario.post('/value');
          expect(first).toMatchObject({ status: 201, replayed: false });
          const [value, ...others] = scenario.notes.splice(0);
          expect([value, others]).toEqual([expect.anything(), []]);
          expectReplay(await scenario.post('/value'), first);
          expect(scenario.notes).toEqual([value]);
        });
      },
    );
  });

  /** Responses of which a platform would make something else, if it got their bytes as they are. */
  const UnseenController = controllerOf(
    'UnseenController',
    {
      value: respond,
      'spaced-json': withReply((execution, reply: Reply) => {
        reply.header('Content-Type', 'application/json');
        return `{ "execution" : ${execution}.0 }`;
      }),
      'nothing-of-a-type': withReply((_, reply: Reply) => {
        reply.status(202).header('Content-Type', 'application/json');
      }),
      'status-without-a-body': withReply((_, reply: Reply) => {
        reply.status(204).header('X-Own', 'kept');
      }),
      'without-its-type': [
        Idempotent({ http: { replayHeaders: ['X-Own'] } }),
        ...withReply((execution, reply: Reply) => {
          reply.header('X-Own', 'kept');
          return { execution };
        }),
      ],
    },
    Controller('unseen'),
    Idempotent(),
  );

  describe.each(platforms)('on %s, a replay whose value nothing sees', (platform) => {
    const app = useServer(() =>
      startApp({
        platform,
        store: memoryStore(),
        controllers: [UnseenController],
        configure: (nest) =>
          nest.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
            const prototype: unknown = Object.getPrototypeOf(response);
            response.once('finish', () => {
              const isPatched = Object.getPrototypeOf(response) !== prototype;
              note(request, isPatched ? 'patched' : 'not patched');
            });
            next();
          }),
      }),
    );

    const routes = routesOf(UnseenController).map((path) => `/unseen${path}`);

    it.each(routes.filter((path) => !path.endsWith('without-its-type')))(
      'is the first response of %s, and its response is not patched',
      async (path) => {
        const scenario = app.scenario();
        const first = await scenario.post(path);
        expectReplay(await scenario.post(path), first);
        expectReplay(await scenario.post(path), first);
        expect(scenario.notes).toEqual(['patched', 'not patched', 'not patched']);
        expect(scenario.executions).toBe(1);
      },
    );

    it('has no type if that was not stored', async () => {
      const scenario = app.scenario();
      const first = await scenario.post('/unseen/without-its-type');
      const replay = await scenario.post('/unseen/without-its-type');
      expect(replay).toMatchObject({ status: 201, replayed: true, text: first.text });
      expect([replay.all('content-type'), replay.all('x-own')]).toEqual([[], ['kept']]);
    });
  });
});
