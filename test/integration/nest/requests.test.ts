import { randomUUID } from 'node:crypto';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Get,
  type INestApplicationContext,
  Injectable,
  Logger,
  Module,
  Post,
  type Type,
  UnauthorizedException,
} from '@nestjs/common';
import { ExternalContextCreator, NestFactory } from '@nestjs/core';
import {
  IdempotencyMeter,
  type IdempotencyModuleOptions,
  IdempotencyReconciler,
  IdempotencyService,
  type IdempotencyStore,
  Idempotent,
  isIdempotencyError,
  type OutcomeCodec,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import type * as Store from 'nestjs-idempotency/store';
import { DelegatingStore } from 'nestjs-idempotency/store';
import { PostgresUnitOfWork } from 'nestjs-idempotency/transactions';
import { EMPTY, lastValueFrom, map, type Observable } from 'rxjs';
import { abandon, recordOf } from '../../support/engine/abandon.js';
import { platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp } from '../../support/http/start-app.js';
import { comparableArguments, fieldKey, socketCall } from '../../support/internals/call.js';
import { failureActionOf, messageKey } from '../../support/internals/message.js';
import { useFastPath } from '../../support/internals/nest.js';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { optionAt } from '../../support/nest/option-at.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';

describe('fast path', () => {
  interface Interceptor {
    intercept(context: ExecutionContext, next: { handle(): Observable<unknown> }): unknown;
  }

  type Arguments = [
    interceptors: readonly Interceptor[],
    args: readonly unknown[],
    instance: object,
    callback: () => unknown,
    next: () => Promise<unknown>,
    type: string,
    ...later: unknown[],
  ];

  /** Nest's class that calls the interceptors of a request. */
  type ConsumerClass = new () => { intercept(...args: Arguments): Promise<Observable<unknown>> };

  @Module({})
  class EmptyModule {}

  let nest: INestApplicationContext;
  let OfNest: ConsumerClass;

  beforeAll(async () => {
    nest = await NestFactory.createApplicationContext(EmptyModule, { logger: false });
    OfNest = Reflect.get(nest.get(ExternalContextCreator), 'interceptorsConsumer').constructor;
  });
  afterAll(() => nest.close());

  type Change = (original: (...args: Arguments) => Promise<any>, args: Arguments) => unknown;

  const same: Change = (original, args) => original(...args);

  /** Nest's class with a method of its own, as another version may have it. */
  function classWith(change: Change): ConsumerClass {
    return class InterceptorsConsumer extends OfNest {
      override async intercept(
        interceptors: Arguments[0],
        args: Arguments[1],
        instance: Arguments[2],
        callback: Arguments[3],
        next: Arguments[4],
        type: Arguments[5],
      ): Promise<any> {
        return change(
          (...given) => super.intercept(...given),
          [...([interceptors, args, instance, callback, next, type] as const)],
        );
      }
    };
  }

  function redefined(name: 'name' | 'length', value: unknown): ConsumerClass {
    const Class = classWith(same);
    Object.defineProperty(Class.prototype.intercept, name, { value });
    return Class;
  }

  /** Why it is off. */
  function reasonIn(Class: ConsumerClass): Promise<string | undefined> {
    const creator: unknown = { interceptorsConsumer: new Class() };
    return useFastPath(creator as ExternalContextCreator);
  }

  async function isReplacedIn(Class: ConsumerClass): Promise<boolean> {
    const { intercept } = Class.prototype;
    await reasonIn(Class);
    return Class.prototype.intercept !== intercept;
  }

  describe('the method that calls the interceptors of a request is replaced', () => {
    it('if it is as Nest has it', async () => {
      expect(await isReplacedIn(classWith(same))).toBe(true);
      expect(await reasonIn(classWith(same))).toBeUndefined();
    });

    it('once, however many applications start', async () => {
      const Class = classWith(same);
      expect(await Promise.all([isReplacedIn(Class), isReplacedIn(Class)])).toEqual([true, true]);
      expect(await isReplacedIn(Class)).toBe(false);
      const { intercept } = Class.prototype;
      // A tool that wraps it later sees every request of the applications that start after that.
      Class.prototype.intercept = async function (...args: Arguments) {
        return Reflect.apply(intercept, this, args);
      };
      expect(await isReplacedIn(Class)).toBe(false);
    });

    it('by one that passes on what it is called with', async () => {
      const calls: unknown[] = [];
      const Class = classWith((original, args) => {
        calls.push(args);
        return original(...args);
      });
      await isReplacedIn(Class);
      calls.length = 0;
      const args: Arguments = [
        [{ intercept: (_, next) => next.handle().pipe(map((value) => [value])) }],
        [{}, {}, {}],
        {},
        () => undefined,
        () => Promise.resolve('value'),
        'http',
      ];
      const result = await new Class().intercept(...args);
      expect([await lastValueFrom(result), calls]).toEqual([['value'], [args]]);
    });
  });

  describe('the method that calls the interceptors of a request stays', () => {
    const others: Record<string, () => ConsumerClass> = {
      'in a class of another name': () => {
        const Class = classWith(same);
        Object.defineProperty(Class, 'name', { value: 'Interceptors' });
        return Class;
      },
      'if it is inherited': () => class InterceptorsConsumer extends OfNest {},
      'with another name': () => redefined('name', 'run'),
      'with another number of arguments': () => redefined('length', 7),
      'if a wrapper is in its place': () => {
        const Class = classWith(same);
        const { intercept } = Class.prototype;
        const wrapper = async function (this: object, ...args: Arguments) {
          return Reflect.apply(intercept, this, args);
        };
        Object.defineProperties(wrapper, { name: { value: 'intercept' }, length: { value: 6 } });
        Class.prototype.intercept = wrapper;
        return Class;
      },
      'if a method that looks like it is in its place': () => {
        const Class = classWith(same);
        const { intercept: original } = Class.prototype;
        class Tracing {
          async intercept(
            this: object,
            interceptors: Arguments[0],
            args: Arguments[1],
            instance: Arguments[2],
            callback: Arguments[3],
            next: Arguments[4],
            type: Arguments[5],
          ) {
            const given = [interceptors, args, instance, callback, next, type];
            return Reflect.apply(original, this, given);
          }
        }
        // eslint-disable-next-line @typescript-eslint/unbound-method -- It becomes a method again.
        Class.prototype.intercept = Tracing.prototype.intercept;
        return Class;
      },
      'without a method for the context': () => {
        const Class = classWith(same);
        Object.assign(Class.prototype, { createContext: undefined });
        return Class;
      },
    };
    it.each(Object.entries(others))('%s', async (_, make) => {
      expect(await isReplacedIn(make())).toBe(false);
      expect(await reasonIn(make())).toContain('not the method that Nest declares');
    });

    const inTrial: Record<string, Change> = {
      'calls the handler twice': async (original, args) => {
        await args[4]();
        return original(...args);
      },
      'calls the interceptor twice': (original, [interceptors, ...others]) =>
        original([...interceptors, ...interceptors], ...others),
      'calls another interceptor': (original, [, ...others]) =>
        original([{ intercept: (_, next) => next.handle() }], ...others),
      'describes another class': (original, [interceptors, args, , ...others]) =>
        original(interceptors, args, {}, ...others),
      'describes another handler': (original, [interceptors, args, instance, , ...others]) =>
        original(interceptors, args, instance, () => undefined, ...others),
      'describes another request': (original, [interceptors, args, ...others]) =>
        original(interceptors, [{}, ...args.slice(1)], ...others),
      'describes another type of request': (original, [one, two, three, four, five]) =>
        original(one, two, three, four, five, 'rpc'),
      throws: () => {
        throw new Error('another version');
      },
      'emits another value': async (original, args) =>
        (await original(...args)).pipe(map((value) => ({ value }))),
      'emits nothing': async (original, args) => {
        await original(...args);
        return EMPTY;
      },
      'returns a value in place of a stream': async (original, args) =>
        lastValueFrom(await original(...args)),
    };
    it.each(Object.entries(inTrial))('if it %s', async (_, change) => {
      expect(await isReplacedIn(classWith(change))).toBe(false);
      expect(await reasonIn(classWith(change))).toContain('in a trial');
    });
  });
});

describe('rejecting responses', () => {
  /** An async function for an option that must return synchronously. */
  const rejecting = async (): Promise<never> => {
    throw new Error('planned: rejected');
  };

  /** Each unhandled rejection would end the process. */
  const unhandled: unknown[] = [];
  const note = (error: unknown) => void unhandled.push(error);

  beforeAll(() => void process.on('unhandledRejection', note));
  afterAll(() => void process.off('unhandledRejection', note));
  afterEach(async () => {
    await new Promise(setImmediate);
    expect(unhandled.splice(0)).toEqual([]);
  });

  class TenantUnknown extends Error {}

  @Catch(TenantUnknown)
  class TenantUnknownFilter implements ExceptionFilter {
    catch(_: TenantUnknown, host: ArgumentsHost) {
      const response = host.switchToHttp().getResponse<Responding>();
      response.status(404).send('no such tenant');
    }
  }

  /** The response of Express or Fastify. */
  interface Responding {
    status(status: number): { send(text: string): void };
  }

  describe.each(platforms)('An option function on %s', (platform) => {
    const controllers: Type[] = [];
    const app = useServer(() =>
      startApp({
        platform,
        store: memoryStore(),
        controllers,
        configure: (nest) => nest.useGlobalFilters(new TenantUnknownFilter()),
      }),
    );

    /** Adds a route with these options to the application. */
    function route(options: object) {
      const path = `things/${controllers.length}`;
      const operation = `Things.create${controllers.length}`;
      @Controller(path)
      class ThingsController {
        @Post()
        @Idempotent({ operation, ...options })
        async create(@InScenario() scenario: Scenario) {
          const execution = await scenario.run();
          if (scenario.planned(execution) === 'fail') throw new Error('planned');
          return { execution };
        }
      }
      controllers.push(ThingsController);
      return { path: `/${path}`, operation };
    }

    describe('that returns a rejected promise', () => {
      it.each(
        [
          ...['enabled', 'key', 'key.syntax', 'caller.scope', 'fingerprint'].map(
            (option) => [option, optionAt(option, rejecting)] as const,
          ),
          ...([
            ['a part of fingerprint', { fingerprint: () => ({ all: [rejecting(), rejecting()] }) }],
            ['a toJSON in fingerprint', { fingerprint: () => [1, { toJSON: rejecting }] }],
            [
              'a part of caller.scope',
              { caller: { scope: () => ['a', rejecting(), rejecting()], anonymous: 'shared' } },
            ],
            [
              'a part of caller.scope, later',
              { caller: { scope: async () => ['a', rejecting()], anonymous: 'shared' } },
            ],
          ] as const),
        ].map(([given, options]) => ({ given, ...route(options) })),
      )('as $given: 500, and nothing runs', async ({ path }) => {
        const scenario = app.scenario();
        expect((await scenario.post(path)).status).toBe(500);
        expect(scenario.executions).toBe(0);
      });

      it.each(
        ['keep', 'retention'].map((option) => ({
          option,
          ...route({ outcome: { [option]: rejecting } }),
        })),
      )('as outcome.$option: its default applies', async ({ path }) => {
        const scenario = app.scenario();
        const first = await scenario.post(path);
        expect(first).toMatchObject({ status: 201, json: { execution: 1 } });
        expectReplay(await scenario.post(path), first);
      });

      const { path } = route({ outcome: async () => false });
      it('as outcome.keep: a failure is kept, whatever the promise resolves to [P31]', async () => {
        const scenario = app.scenario();
        scenario.plan = ['fail'];
        const first = await scenario.post(path);
        expect(first.status).toBe(500);
        expectReplay(await scenario.post(path), first);
        expect(scenario.executions).toBe(1);
      });
    });

    describe('that throws', () => {
      const throwing = () => {
        throw new TypeError('planned: no secret-user');
      };
      const lines: unknown[][] = [];

      beforeEach(() => {
        lines.length = 0;
        jest
          .spyOn(Logger.prototype, 'error')
          .mockImplementation((...line: unknown[]) => void lines.push(line));
      });
      afterEach(() => {
        jest.restoreAllMocks();
      });

      const scoped = (scope: unknown, anonymous = 'shared') =>
        route({ caller: { scope, anonymous } });

      it.each(
        [
          ['enabled', throwing] as const,
          ['key', throwing] as const,
          ['key.syntax', throwing] as const,
          ['caller.scope', throwing] as const,
          ['caller.scope', async () => throwing()] as const,
          ['fingerprint', throwing] as const,
        ].map(([option, given]) => ({ option, ...route(optionAt(option, given)) })),
      )('as $option is reported with option and operation', async ({ option, path, operation }) => {
        const scenario = app.scenario();
        const response = await scenario.post(path);
        expectProblem(response, 'misconfigured');
        expect(scenario.executions).toBe(0);
        expect(response.body.toString()).not.toMatch(/planned|Things/);
        expect(lines).toHaveLength(1);
        const [message, stack] = lines[0] as string[];
        expect(message).toContain(`the option "${option}" of ${operation} failed.`);
        expect(message).not.toContain('secret');
        expect(stack).toMatch(/Caused by: TypeError: planned/);
      });

      it.each(
        [
          ['a guard', new UnauthorizedException()] as const,
          [
            'http-errors',
            Object.assign(new Error('Unauthorized'), {
              ...{ status: 401, statusCode: 401, expose: true },
            }),
          ] as const,
          [
            'Fastify',
            Object.assign(new Error('Unauthorized'), {
              name: 'FastifyError',
              code: 'FST_UNAUTHORIZED',
              statusCode: 401,
              constructor: { name: 'FastifyError' },
            }),
          ] as const,
        ].map(([who, rejection]) => {
          const reject = () => {
            throw rejection;
          };
          return { who, routes: [scoped(reject), scoped(async () => reject())] };
        }),
      )('an HTTP error, as $who does, sends its own response', async ({ routes }) => {
        for (const { path } of routes) {
          expect((await app.scenario().post(path)).status).toBe(401);
        }
        // Nest itself may log what was thrown.
        expect(lines.flat().join('\n')).not.toContain('option');
      });

      const unknown = () => {
        throw new TenantUnknown();
      };
      const ofUnknown = [scoped(unknown), scoped(async () => unknown())];
      it('an error of its own class leaves the response to an exception filter', async () => {
        for (const { path } of ofUnknown) {
          const scenario = app.scenario();
          expect(await scenario.post(path)).toMatchObject({ status: 404, text: 'no such tenant' });
          expect(scenario.executions).toBe(0);
        }
      });
    });

    it.each(
      [undefined, null].map((noOne) => {
        const given = (anonymous: string) =>
          route({ caller: { scope: () => noOne, anonymous } }).path;
        return { noOne, shared: given('shared'), rejected: given('reject') };
      }),
    )(
      'applies `caller.anonymous` when it returns $noOne as a scope',
      async ({ shared, rejected }) => {
        expect((await app.scenario().post(shared)).status).toBe(201);
        expectProblem(await app.scenario().post(rejected), 'caller-unknown');
      },
    );
  });

  describe('An option function of a call that returns a rejected promise', () => {
    @Injectable()
    class Payments {
      runs = 0;

      @Idempotent({ key: rejecting as never })
      async byKey() {
        this.runs += 1;
      }

      @Idempotent({ key: () => 'k', scope: rejecting as never })
      async byScope() {
        this.runs += 1;
      }

      @Idempotent({ key: () => 'k', payload: rejecting })
      async byPayload() {
        this.runs += 1;
      }
    }

    let app: CallingApp;
    beforeAll(async () => {
      app = await callingApp({ providers: [Payments] });
    });
    afterAll(() => app.nest.close());

    it.each([
      ['key', 'byKey'],
      ['scope', 'byScope'],
      ['payload', 'byPayload'],
    ] as const)('%s: the call is rejected, and nothing runs', async (option, method) => {
      const payments = app.nest.get(Payments);
      await expect(payments[method]()).rejects.toMatchObject({
        code: 'idempotency_options_invalid',
        message: expect.stringContaining(`option "${option}" of Payments.${method}`),
      });
      expect(payments.runs).toBe(0);
    });

    it.each(['keep', 'retention'])('outcome.%s: its default applies', async (option) => {
      const service = app.nest.get(IdempotencyService, { strict: false });
      const call = {
        operation: option,
        key: 'k',
        scope: 'alice',
        outcome: { [option]: rejecting },
      };
      expect(await service.run(call, () => 'first')).toBe('first');
      expect(await service.run(call, () => 'second')).toBe('first');
    });

    it.each<[string, () => object]>([
      ['payload', () => ({ payload: rejecting() })],
      ['payload, inside', () => ({ payload: { digests: [rejecting(), rejecting()] } })],
      ['key', () => ({ key: rejecting() })],
      ['scope', () => ({ scope: rejecting() })],
      ['scope, inside', () => ({ scope: ['a', rejecting(), rejecting()] })],
    ])('%s of run(): the call is rejected, and nothing runs', async (_, given) => {
      const service = app.nest.get(IdempotencyService, { strict: false });
      const run = jest.fn();
      const call = { operation: 'given', key: 'k', scope: 'alice', ...given() };
      await expect(service.run(call, run)).rejects.toMatchObject({
        code: 'idempotency_options_invalid',
      });
      expect(run).not.toHaveBeenCalled();
    });

    it('outcome.codec: a value that it cannot encode or decode is not kept', async () => {
      const service = app.nest.get(IdempotencyService, { strict: false });
      const call = { operation: 'codec', key: 'k', scope: 'alice' };
      const encoding = {
        name: 'own',
        encode: rejecting,
        decode: () => 1,
      } as unknown as OutcomeCodec;
      await expect(
        service.run({ ...call, outcome: { codec: encoding } }, () => 1),
      ).rejects.toMatchObject({
        code: 'idempotency_value_not_storable',
      });
      const encode = () => Buffer.from('1');
      const decoding = { name: 'own', encode, decode: rejecting } as unknown as OutcomeCodec;
      const read = { ...call, key: 'read', outcome: { codec: decoding } };
      await expect(service.run(read, () => 1)).rejects.toMatchObject({
        code: 'idempotency_response_not_kept',
      });
    });
  });

  describe('An option function of a message that returns a rejected promise', () => {
    const options = { key: { from: rejecting }, enabled: true, outcome: {} };
    const route = { operation: 'orders.place', options } as never;
    const context = {} as never;

    it('key: throws on each transport', async () => {
      const reported = /option "key" of orders\.place returned a promise/;
      expect(() => messageKey(context, route)).toThrow(reported);
      expect(() => fieldKey(context, {} as never, route)).toThrow(reported);
      const gone = new AbortController().signal;
      await expect(socketCall(context, route, gone, {} as never)).rejects.toThrow(reported);
    });

    it('an argument of GraphQL: an uploaded file is not awaited', () => {
      const args = { file: rejecting(), files: [rejecting()] };
      expect(() => JSON.stringify(comparableArguments(args))).toThrow(/cannot be compared/);
    });

    it('message.onFailure: the message is requeued, and it is reported why', () => {
      const failed: unknown[][] = [];
      const observer = { optionFailed: (...args: unknown[]) => void failed.push(args) };
      const action = failureActionOf(new Error(), context, rejecting as never, observer);
      expect(action).toBe('requeue');
      const message = expect.stringMatching(
        /"message.onFailure" must return .* returned a Promise/,
      );
      expect(failed).toMatchObject([['message.onFailure', { message }]]);
    });
  });

  describe('A callback that rejects and is not awaited', () => {
    // For postgresStore: test/unit/postgres/deletion-schedule.test.ts.
    it('onConnectionError of redisStore', async () => {
      let isReported = (): void => undefined;
      const reported = new Promise<void>((resolve) => (isReported = resolve));
      const reporting: () => unknown = () => {
        isReported();
        return rejecting();
      };
      const store = redisStore({
        url: `redis://127.0.0.1:${await freePort()}`,
        onConnectionError: reporting,
      });
      await store.open().catch(() => undefined);
      await reported;
      await store.close();
    });
  });
});

describe('meter', () => {
  @Controller()
  class Payments {
    @Post()
    @Idempotent({ operation: 'pay' })
    pay(): void {
      // Never called.
    }

    /** Safe, so never protected. */
    @Get()
    @Idempotent({ operation: 'list' })
    list(): void {
      // Never called.
    }
  }

  @Injectable()
  class Invoices {
    @Idempotent({ operation: 'send', key: (id: string) => id })
    async send(_: string): Promise<void> {
      await Promise.resolve();
    }
  }

  it('knows the operations of handlers and methods, and registered ones, before their first request', async () => {
    const app = await callingApp(
      { controllers: [Payments], providers: [Invoices] },
      { store: memoryStore(), breaker: true },
    );
    const meter = app.nest.get(IdempotencyMeter, { strict: false });
    const reconciler = app.nest.get(IdempotencyReconciler, { strict: false });
    reconciler.register('settle', { lease: { onTakeover: () => 'run' } });
    const { operations, store } = meter.read();
    const requests = [...operations].map(([name, reading]) => [name, reading.requests]);
    expect(requests).toEqual([
      ['pay', { http: { unprotected: 0 } }],
      ['send', { call: { unprotected: 0 } }],
      ['settle', { call: { unprotected: 0 } }],
    ]);
    expect(store.breaker).toBe('closed');
    await app.nest.close();
  });

  it('says once in the log that it counts further operations together, without their names', async () => {
    const app = await callingApp({});
    const meter = app.nest.get(IdempotencyMeter, { strict: false });
    const service = app.nest.get(IdempotencyService, { strict: false });
    const names = Array.from({ length: 203 }, (_, index) => `invoice ${index}`);
    for (const operation of names) await service.run({ operation, key: 'k', scope: 's' }, () => 1);
    const { operations } = meter.read();
    expect(operations.size).toBe(201);
    expect(operations.get('_OTHER')!.requests.call!.executed).toBe(3);
    const lines = app.log.own.filter((line) => line.includes('idempotency_too_many_operations'));
    expect(lines).toEqual([
      expect.stringMatching(/^warn: The meter counts 200 operations by name/),
    ]);
    expect(lines[0]).not.toContain('invoice');
    await app.nest.close();
  });

  /** Notes every command but `inspect`, which only probes send, and how it ended. */
  class RecordingStore extends DelegatingStore {
    /** By command and, if it failed, error code. */
    readonly ended: Record<string, number> = {};

    override begin(command: Store.Begin) {
      return this.noted('begin', () => super.begin(command));
    }

    override extend(lease: Store.Lease, command: Store.Extend) {
      return this.noted('extend', () => super.extend(lease, command));
    }

    override complete(lease: Store.Lease, command: Store.Complete) {
      return this.noted('complete', () => super.complete(lease, command));
    }

    override release(lease: Store.Lease, command: Store.Release) {
      return this.noted('release', () => super.release(lease, command));
    }

    override watch(...args: Parameters<IdempotencyStore['watch']>) {
      return this.noted('watch', () => super.watch(...args));
    }

    override abandoned(command: Store.Abandoned) {
      return this.noted('abandoned', () => super.abandoned(command));
    }

    override get transactional(): Store.TransactionalRecords | undefined {
      const records = super.transactional;
      return (
        records && {
          lock: (...args) => this.noted('transaction_lock', () => records.lock(...args)),
          complete: (...args) =>
            this.noted('transaction_complete', () => records.complete(...args)),
          ended: (...args) => this.noted('transaction_ended', () => records.ended(...args)),
          committed: (...args) => {
            records.committed(...args);
          },
        }
      );
    }

    private async noted<Reply>(command: string, send: () => Promise<Reply>): Promise<Reply> {
      const note = (name: string) => (this.ended[name] = (this.ended[name] ?? 0) + 1);
      try {
        const reply = await send();
        note(command);
        return reply;
      } catch (error) {
        note(`${command} ${isIdempotencyError(error) ? error.code : '_OTHER'}`);
        throw error;
      }
    }
  }

  async function start(real: IdempotencyStore, options: Partial<IdempotencyModuleOptions> = {}) {
    const store = new RecordingStore(real);
    const app = await callingApp({}, { store, ...options });
    afterTest(() => app.nest.close());
    const get: typeof app.nest.get = (token: never) => app.nest.get(token, { strict: false });
    const meter = get(IdempotencyMeter);
    const service = get(IdempotencyService);
    const commands = () => meter.read().store.commands;
    return {
      store,
      meter,
      reconciler: get(IdempotencyReconciler),
      run: (key: string, work: () => unknown, options: object = {}) =>
        service.run({ operation: 'pay', key, scope: 'alice', ...options }, work),
      commands,
      /** As {@link RecordingStore.ended}. */
      counted: () =>
        Object.fromEntries(
          commands().map(({ command, errorType, duration }) => [
            [command, errorType].filter(Boolean).join(' '),
            duration.count,
          ]),
        ),
    };
  }

  const failing = () => {
    throw new Error('planned');
  };

  const redis = useRedis();
  const postgres = usePostgres();

  async function migrated() {
    const url = await postgres.newDatabase();
    const store = postgresStore({ url });
    await store.migrate();
    return { url, store };
  }

  describe.each([
    ['memory', async () => memoryStore()],
    ['redis', async () => redisStore({ url: redis.url })],
    ['postgresql', async () => (await migrated()).store],
  ] as const)('the meter counts the commands to %s', (system, open) => {
    it('that requests, lease extensions, waiting duplicates and the reconciler send', async () => {
      const { store, meter, run, reconciler, counted } = await start(await open(), {
        reconcile: { interval: 3_600_000, after: 0 },
      });
      // The check at the start is a probe.
      expect(store.ended).toEqual({ abandoned: 1 });
      expect(counted()).toEqual({});
      store.ended.abandoned = 0;

      await run('one', () => 1);
      await run('one', () => 1);
      await expect(run('two', failing)).rejects.toThrow('planned');
      await run('three', () => until(() => counted().extend !== undefined), {
        lease: { duration: 300 },
      });
      const gate = Gate.closed();
      const waiting = { duplicates: { mode: 'wait', timeout: 60_000 } };
      const requests = [1, 2].map(() => run('four', () => gate.pass(), waiting));
      await until(() => meter.read().operations.get('pay')!.waiting === 1);
      await until(() => counted().watch === 1);
      gate.open();
      await Promise.all(requests);

      reconciler.register('settle', { lease: { onTakeover: () => ({ value: 1 }) } });
      const call = await abandon(store, 'settle', 'five', 100);
      store.ended.begin! -= 1;
      await until(async () => (await recordOf(store, call))!.leaseLeftMs! < 0);
      expect(await reconciler.reconcile()).toMatchObject({ completed: 1 });

      expect(counted()).toEqual(store.ended);
      const names = ['abandoned', 'begin', 'complete', 'extend', 'release', 'watch'];
      expect(Object.keys(store.ended).sort()).toEqual(names);
      // Two for `two`, one for the reconciler's lock.
      expect(counted()).toMatchObject({ abandoned: 1, complete: 4, release: 2, watch: 1 });
      expect(meter.read().store.system).toBe(system);
    });
  });

  it('the meter counts the commands of a transaction, also those after a commit without a reply', async () => {
    const { url, store: real } = await migrated();
    const pool = openPostgresPool(url);
    const plain = pgUnitOfWork(pool);
    class LosingReplies extends PostgresUnitOfWork {
      isLosing = false;

      async run(...args: Parameters<typeof plain.run>): Promise<never> {
        const result = await plain.run(...args);
        if (this.isLosing) throw new Error('planned: no reply to COMMIT');
        return result as never;
      }
    }
    const unitOfWork = new LosingReplies();
    const { store, run, counted } = await start(real, { unitOfWork });
    afterTest(() => pool.end());
    await run('one', () => 1, { transaction: true });
    expect(counted()).toEqual({ begin: 1, transaction_lock: 1, transaction_complete: 1 });
    unitOfWork.isLosing = true;
    await run('two', () => 1, { transaction: true });
    expect(counted()).toEqual({
      ...{ begin: 2, transaction_lock: 2, transaction_complete: 2 },
      ...{ transaction_ended: 1, release: 1 },
    });
    expect(store.ended).toEqual(counted());
  });

  describe('the meter, of commands to a Redis', () => {
    const node = useServer(() => RedisNode.start());
    const LIMIT_MS = 200;

    async function onNode() {
      const started = await start(
        redisStore({ url: node.url, onConnectionError: () => undefined }),
        {
          storeErrors: { commandTimeout: LIMIT_MS, saveTimeout: 2 * LIMIT_MS },
          lease: { duration: 600_000, maxExecution: 600_000 },
        },
      );
      const isServed = () => started.run(randomUUID(), () => 1).then(Boolean, () => false);
      // It is connected, and its scripts are loaded.
      await until(isServed);
      return { ...started, isServed };
    }

    it('that is paused, says that their outcome is unknown, after their time limit', async () => {
      const { store, run, commands, counted, isServed } = await onNode();
      const unknown = (name: string) =>
        commands().find(
          ({ command, errorType }) =>
            command === name && errorType === 'idempotency_store_outcome_unknown',
        )?.duration;
      try {
        node.pause();
        await expect(run('one', () => 1)).rejects.toThrow();
        // Less a timer's rounding.
        expect(unknown('begin')).toMatchObject({ count: 1 });
        expect(unknown('begin')!.sum).toBeGreaterThan((LIMIT_MS - 2) / 1_000);
        node.resume();
        await until(isServed);
        const before = counted().complete!;
        const pausing = () => {
          node.pause();
          return 1;
        };
        expect(await run('two', pausing)).toBe(1);
        expect(unknown('complete')).toBeDefined();
        node.resume();
        // The save goes on in the background.
        await until(() => counted().complete === before + 1);
        await until(() => sumOf(store.ended) === sumOf(counted()));
        expect(counted()).toEqual(store.ended);
      } finally {
        node.resume();
      }
    });

    it('that is gone, says that it is unavailable', async () => {
      const { store, run, counted } = await onNode();
      await node.kill();
      try {
        // The first one may notice the end of the connection.
        await expect(run('one', () => 1)).rejects.toThrow();
        await expect(run('two', () => 1)).rejects.toThrow();
        expect(counted()['begin idempotency_store_unavailable']).toBeGreaterThan(0);
        expect(counted()).toEqual(store.ended);
      } finally {
        await node.start();
      }
    });
  });

  function sumOf(counts: Record<string, number>): number {
    return Object.values(counts).reduce((sum, each) => sum + each, 0);
  }
});
