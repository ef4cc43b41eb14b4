import {
  Controller,
  HttpException,
  Inject,
  Injectable,
  Post,
  Res,
  type Type,
} from '@nestjs/common';
import { RouterExecutionContext } from '@nestjs/core/router/router-execution-context.js';
import { INTERCEPTORS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { REQUEST } from '@nestjs/core';
import { Mutation, Resolver } from '@nestjs/graphql';
import { EventPattern, RpcException } from '@nestjs/microservices';
import { SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { describe, expect, it, jest } from '@jest/globals';
import { currentIdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { from, map, of, switchMap, throwError } from 'rxjs';
import { GraphQLError } from 'graphql';
import { Around, givingUp } from '../../support/http/around.js';
import { type Platform, platforms } from '../../support/http/combinations.js';
import { expectProblem, expectReplay } from '../../support/http/expectations.js';
import type { Reply } from '../../support/http/reply.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { useServer } from '../../support/servers/use-server.js';
import { afterTest } from '../../support/jest/after-test.js';
import { until } from '../../support/waiting/until.js';
import { callingApp, type CallingApp, rejection } from '../../support/nest/calling-app.js';
import { declared } from '../../integration/nest/support/declared.js';
import { useBank } from '../transactional/support/bank.js';
import { Transfers } from '../transactional/support/transfers.controller.js';
import { ask, InScenario as InDocument, startGraphqlApp } from '../graphql/support/graphql-app.js';
import { Charge } from '../graphql/support/payments.resolver.js';
import { useBroker } from '../messages/support/use-broker.js';
import {
  InScenario as InMessage,
  KnownCallers,
  payloadOf,
  startSocketApp,
} from '../socket/support/socket-app.js';
import { copyMetadata, Wrapping } from './support/wrapping.js';

/** Calls the handler again once, after the scenario's second gate opens. */
const retrying = Wrapping(async (run, [scenario]) => {
  try {
    return await run();
  } catch {
    scenario.notes.push('retrying');
    await scenario.pause?.pass();
    return await run();
  }
});

const committing = Wrapping(async (run, [scenario]) => {
  const result: unknown = await run();
  scenario.notes.push('committing');
  await scenario.gate.pass();
  if (scenario.planned(scenario.executions) === 'break') throw new Error('could not commit');
  return result;
});

const cached = Wrapping((run, [scenario]) =>
  scenario.plan[0] === 'hit' ? { cached: true } : (run() as unknown),
);

const rejectingFirst = Wrapping(async (run, [scenario]) => {
  if (scenario.notes.push('asked') === 1) throw new HttpException('not yet', 403);
  return run() as unknown;
});

/** Abandons the handler, as decorators for timeouts do. */
const timing = Wrapping((run, [scenario]) =>
  Promise.race([
    run(),
    scenario.timeout.pass().then(() => {
      throw new HttpException('too slow', 503);
    }),
  ]),
);

const fallingBack = Wrapping(async (run) => {
  try {
    return await run();
  } catch {
    return { fallback: true };
  }
});

const asynchronous = Wrapping(async (run) => {
  await Promise.resolve();
  return run() as unknown;
});

async function follow(scenario: Scenario) {
  const execution = await scenario.run();
  if (scenario.planned(execution) === 'decline') throw new HttpException({ execution }, 402);
  if (scenario.planned(execution) === 'fail') throw new Error('planned');
  return { execution };
}

@Controller()
class WrappedController {
  @retrying
  @Post('retried')
  @Around(givingUp)
  @Idempotent()
  async retried(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @committing
  @Post('committed')
  @Around(givingUp)
  @Idempotent()
  async committed(@InScenario() scenario: Scenario) {
    return { execution: scenario.started.add() };
  }

  @Post('cached')
  @cached
  @Idempotent()
  async cached(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('refused')
  @rejectingFirst
  @Idempotent({ outcome: () => true })
  async rejected(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('timed')
  @timing
  @Idempotent()
  async timed(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('fallen-back')
  @fallingBack
  @Idempotent()
  async fallenBack(@InScenario() scenario: Scenario) {
    return follow(scenario);
  }

  @Post('emitted')
  @asynchronous
  @Idempotent()
  @asynchronous
  emitted(@InScenario() scenario: Scenario) {
    const runs = from(scenario.run());
    return runs.pipe(
      switchMap((execution) =>
        scenario.planned(execution) === 'decline'
          ? throwError(() => new HttpException({ execution }, 402))
          : of(1, 2).pipe(map((emission) => ({ execution, emission }))),
      ),
    );
  }

  @asynchronous
  @Post('native')
  @asynchronous
  @Idempotent()
  async native(@InScenario() scenario: Scenario, @Res() reply: Reply) {
    const { execution } = await follow(scenario);
    reply.status(202).send({ execution, operation: currentIdempotencyContext()?.operation });
  }

  @Post('around-itself')
  @Around(givingUp)
  @Idempotent()
  async aroundItself(@InScenario() scenario: Scenario): Promise<unknown> {
    const execution = await scenario.run();
    const isInner = execution % 2 === 0;
    if (isInner) return { execution };
    await this.aroundItself(scenario);
    throw new Error('after its own success');
  }
}

describe.each(platforms)('a decorator around the handler on %s', (platform) => {
  const app = useServer(() =>
    startApp({ platform, store: memoryStore(), controllers: [WrappedController] }),
  );

  /** Sends until the response is not "in progress". */
  async function outcomeOf(scenario: Scenario, path: string) {
    for (let post = 1; post <= 500; post += 1) {
      const response = await scenario.post(path);
      if (response.json.code !== 'idempotency_in_progress') return response;
    }
    throw new Error('the handler did not end');
  }

  /** Makes an interceptor inside of @Idempotent() abandon the handler once the scenario has a note. */
  async function givenUpAt(note: string, path: string, scenario: Scenario) {
    scenario.timeout.close();
    const pending = scenario.start('POST', path);
    await until(() => scenario.notes.includes(note));
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
  }

  it('that calls it again gets one outcome', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    scenario.timeout.close();
    const first = await scenario.post('/retried');
    expect(first).toMatchObject({ status: 201, json: { execution: 2 } });
    expectReplay(await scenario.post('/retried'), first);
    expect(scenario.executions).toBe(2);
  });

  it('that is about to call it again keeps the key locked after its client got 503', async () => {
    const scenario = Object.assign(app.scenario(), { pause: app.scenario().gate });
    scenario.plan = ['fail'];
    scenario.pause.close();
    await givenUpAt('retrying', '/retried', scenario);
    expectProblem(await scenario.post('/retried'), 'in-progress');
    scenario.pause.open();
    expectProblem(await outcomeOf(scenario, '/retried'), 'response-not-kept');
    expect(scenario.executions).toBe(2);
  });

  it('that fails after the handler returned and its client got 503 frees the key', async () => {
    const scenario = app.scenario();
    scenario.plan = ['break'];
    scenario.gate.close();
    await givenUpAt('committing', '/committed', scenario);
    expectProblem(await scenario.post('/committed'), 'in-progress');
    scenario.gate.open();
    const second = await outcomeOf(scenario, '/committed');
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 2 } });
  });

  it('that returns a value instead of calling it is replayed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['hit'];
    const first = await scenario.post('/cached');
    expect(first).toMatchObject({ status: 201, json: { cached: true } });
    scenario.plan = [];
    expectReplay(await scenario.post('/cached'), first);
    expect(scenario.executions).toBe(0);
  });

  it('C88 a decorator that rejects before it calls the handler keeps nothing under any policy', async () => {
    const scenario = app.scenario();
    expect(await scenario.post('/refused')).toMatchObject({ status: 403, replayed: false });
    const second = await scenario.post('/refused');
    expect(second).toMatchObject({ status: 201, replayed: false, json: { execution: 1 } });
  });

  it('that abandons it keeps the key locked until the handler ends', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', '/timed');
    await scenario.started.reached(1);
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    expectProblem(await scenario.post('/timed'), 'in-progress');
    scenario.gate.open();
    expectProblem(await outcomeOf(scenario, '/timed'), 'response-not-kept');
    expect(scenario.executions).toBe(1);
  });

  it('that returns a value for its failure is replayed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/fallen-back');
    expect(first).toMatchObject({ status: 201, json: { fallback: true } });
    expectReplay(await scenario.post('/fallen-back'), first);
    expect(scenario.executions).toBe(1);
  });

  it.each([
    ['success', [], 201, { execution: 1, emission: 2 }],
    ['rejection', ['decline'], 402, { execution: 1 }],
  ])('above and below passes an Observable on: a %s', async (_, plan, status, json) => {
    const scenario = app.scenario();
    scenario.plan = plan;
    const first = await scenario.post('/emitted');
    expect(first).toMatchObject({ status, json });
    expectReplay(await scenario.post('/emitted'), first);
    expect(scenario.executions).toBe(1);
  });

  it('without its own name keeps the operation’s name, and the response is the handler’s', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/native');
    const operation = 'WrappedController.native';
    expect(first).toMatchObject({ status: 202, json: { execution: 1, operation } });
    expectReplay(await scenario.post('/native'), first);
    expect(scenario.executions).toBe(1);
  });

  it('is not needed: a handler that calls itself calls a plain method', async () => {
    const scenario = app.scenario();
    scenario.gate.close();
    scenario.timeout.close();
    const pending = scenario.start('POST', '/around-itself');
    await scenario.started.reached(1);
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    scenario.gate.open();
    // The inner call's value is not the operation's success: the outer call throws, which frees the key.
    for (let post = 1; scenario.executions < 3; post += 1) {
      expect(post).toBeLessThan(500);
      expect((await scenario.post('/around-itself')).json.code).not.toBe(
        'idempotency_response_not_kept',
      );
    }
  });

  it('that instrumentation adds when the application starts changes nothing', async () => {
    // As @opentelemetry/instrumentation-nestjs-core does.
    const { prototype } = RouterExecutionContext;
    const create = Reflect.get(prototype, 'create');
    prototype.create = function (instance, callback, ...rest) {
      const instrumented = (...args: unknown[]): unknown => callback.apply(instance, args);
      copyMetadata(callback, instrumented);
      Object.defineProperty(instrumented, 'name', { value: callback.name });
      return create.call(this, instance, instrumented, ...rest);
    };
    const instrumented = await startApp({
      platform,
      store: memoryStore(),
      controllers: [WrappedController],
    }).finally(() => {
      prototype.create = create;
    });
    const scenario = instrumented.scenario();
    scenario.plan = ['decline'];
    const first = await scenario.post('/emitted');
    expect(first).toMatchObject({ status: 402, json: { execution: 1 } });
    expectReplay(await scenario.post('/emitted'), first);
    await instrumented.close();
  });
});

@Controller()
@Idempotent({ transaction: true })
class WrappedTransfersController {
  constructor(private readonly transfers: Transfers) {}

  @retrying
  @Post('retried')
  @Idempotent()
  async retried(@InScenario() scenario: Scenario) {
    return this.transfer(scenario);
  }

  @fallingBack
  @Post('fallen-back')
  @Idempotent()
  async fallenBack(@InScenario() scenario: Scenario) {
    return this.transfer(scenario);
  }

  @asynchronous
  @Post('around-itself')
  @Idempotent()
  async aroundItself(@InScenario() scenario: Scenario, isInner = false): Promise<unknown> {
    const inner = isInner ? undefined : await this.aroundItself(scenario, true);
    return { inner, ...(await this.transfer(scenario)) };
  }

  private async transfer(scenario: Scenario) {
    const execution = await scenario.run();
    await this.transfers.add(scenario, execution);
    if (scenario.planned(execution) === 'fail') throw new Error('planned');
    return { execution };
  }
}

describe('a decorator around a transactional handler', () => {
  const bank = useBank();
  const app = useServer(() =>
    startApp({
      platform: 'express',
      controllers: [WrappedTransfersController],
      providers: [Transfers],
      store: bank.newStore(),
      options: {
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeout: 5_000, saveTimeout: 5_000 },
      },
    }),
  );

  it('that calls it again in the same transaction is rejected, and nothing is committed', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    expect((await scenario.post('/retried')).status).toBe(500);
    expect(scenario.executions).toBe(1);
    expect(await bank.committed(scenario)).toEqual([]);
  });

  it('that returns a value for its failure is replayed, and the handler’s writes are rolled back', async () => {
    const scenario = app.scenario();
    scenario.plan = ['fail'];
    const first = await scenario.post('/fallen-back');
    expect(first).toMatchObject({ status: 201, json: { fallback: true } });
    expect(await bank.committed(scenario)).toEqual([]);
    expectReplay(await scenario.post('/fallen-back'), first);
  });

  it('lets the handler call itself as one operation', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/around-itself');
    expect(first).toMatchObject({ status: 201, json: { execution: 2, inner: { execution: 1 } } });
    expect(await bank.committed(scenario)).toEqual([1, 2]);
    expectReplay(await scenario.post('/around-itself'), first);
  });
});

type Replace = (instance: any) => object;

/** Ways in which an instance replaces its class's method. */
const replacing: readonly (readonly [name: string, replace: Replace])[] = [
  ['a bound method', (instance) => Object.assign(instance, { pay: instance.pay.bind(instance) })],
  [
    'a method with copied metadata',
    (instance) => {
      const pay = instance.pay.bind(instance);
      copyMetadata(instance.pay, pay);
      return Object.assign(instance, { pay });
    },
  ],
  [
    'a getter',
    (instance) => {
      const pay = instance.pay.bind(instance);
      return Object.defineProperty(instance, 'pay', { get: () => pay });
    },
  ],
  [
    'a proxy',
    (instance) =>
      new Proxy(instance, {
        get: (target, name) => (name === 'pay' ? target.pay.bind(target) : target[name]),
      }),
  ],
];

function payments(replace: Replace): Type {
  @Controller()
  class Payments {
    constructor() {
      return replace(this) as this;
    }

    @Post()
    @Idempotent()
    async pay(@InScenario() scenario: Scenario) {
      return scenario.response();
    }
  }
  return Payments;
}

/** A controller that is created for each request. */
function scoped(replace: Replace, path: string): Type {
  @Controller(path)
  class Payments {
    constructor(@Inject(REQUEST) _request: unknown) {
      return replace(this) as this;
    }

    @Post()
    @Idempotent()
    async pay(@InScenario() scenario: Scenario) {
      return scenario.response();
    }

    @Post('plain')
    async plain(@InScenario() scenario: Scenario) {
      return this.pay(scenario);
    }
  }
  return Payments;
}

/** A mixin as in TypeScript's handbook. */
function mixIn(target: Type, source: Type): void {
  for (const name of Object.getOwnPropertyNames(source.prototype)) {
    const descriptor = Object.getOwnPropertyDescriptor(source.prototype, name);
    if (name === 'constructor' || !descriptor) continue;
    Object.defineProperty(target.prototype, name, descriptor);
    // Parameter decorators store their metadata on the class.
    const args: unknown = Reflect.getMetadata(ROUTE_ARGS_METADATA, source, name);
    Reflect.defineMetadata(ROUTE_ARGS_METADATA, args, target, name);
  }
}

/** Copies only the methods, without the class's own metadata. */
function mixed(replace: Replace, path: string): Type {
  @Controller(path)
  class Mixed {
    constructor(@Inject(REQUEST) _request: unknown) {
      return replace(this);
    }
  }
  mixIn(
    Mixed,
    payments((instance) => instance as object),
  );
  return Mixed;
}

async function listening(controller: Type, platform: Platform = 'express'): Promise<TestApp> {
  const app = await startApp({ platform, store: memoryStore(), controllers: [controller] });
  afterTest(() => app.close());
  return app;
}

describe.each(platforms)('instances on %s', (platform) => {
  const controllers: Type[] = [];
  const app = useServer(() => startApp({ platform, store: memoryStore(), controllers }));
  const unchanged: Replace = (instance) => instance as object;

  /** Adds a controller to the application. @returns its path. */
  function pathOf(define: typeof scoped, replace: Replace): string {
    const name = `Payments${controllers.length}`;
    controllers.push(Object.defineProperty(define(replace, name), 'name', { value: name }));
    return `/${name}`;
  }

  it.each(replacing)('the start fails where an instance has %s', async (_, replace) => {
    const error = await rejection(listening(payments(replace), platform));
    expect(error.code).toBe('idempotency_options_invalid');
    expect(error.message).toMatch(/^@Idempotent\(\) on Payments\.pay cannot protect it: the inst/);
  });

  it.each([
    ...replacing.map(([name, replace]) => [`has ${name}`, pathOf(scoped, replace)]),
    // A proxy around such an instance is not detected, as Nest injects nothing into it.
    ...replacing
      .slice(0, 3)
      .map(([name, replace]) => [`of a mixin has ${name}`, pathOf(mixed, replace)]),
  ] as [string, string][])('nothing runs where a request’s instance %s', async (_, path) => {
    const scenario = app.scenario();
    expect((await scenario.post(path)).status).toBe(500);
    expect(scenario.executions).toBe(0);
  });

  it.each([
    ['a class', pathOf(scoped, unchanged)],
    ['a mixin', pathOf(mixed, unchanged)],
  ])('a request’s instance of %s that replaces nothing is protected', async (_, path) => {
    const scenario = app.scenario();
    const first = await scenario.post(path);
    expectReplay(await scenario.post(path), first);
    expect(scenario.executions).toBe(1);
  });

  const path = pathOf(scoped, unchanged);
  it('other code calls a handler as a plain method', async () => {
    const scenario = app.scenario();
    expect((await scenario.post(`${path}/plain`)).status).toBe(201);
    const [, bind] = replacing[0]!;
    const instance = new (payments(bind))() as { pay(scenario: Scenario): unknown };
    expect(await instance.pay(scenario)).toEqual({ execution: 2 });
  });

  it('a retrying decorator around a method that a mixin copied is part of the operation', async () => {
    class Trait {
      @retrying
      @Post()
      @Around(givingUp)
      @Idempotent()
      async pay(@InScenario() scenario: Scenario) {
        if (scenario.started.add() === 1) throw new Error('planned');
        return Promise.resolve({ paid: true });
      }
    }
    @Controller()
    class Payments {}
    mixIn(Payments, Trait);
    const app = await listening(Payments, platform);
    const scenario = Object.assign(app.scenario(), { pause: app.scenario().gate });
    scenario.timeout.close();
    scenario.pause.close();
    const pending = scenario.start('POST', '/');
    await until(() => scenario.notes.includes('retrying'));
    scenario.timeout.open();
    expect((await pending.response).status).toBe(503);
    expectProblem(await scenario.post('/'), 'in-progress');
    scenario.pause.open();
  });
});

const stripping = Wrapping((run) => run() as unknown, 'lost');
const copying = Wrapping((run) => run() as unknown);

async function initialised(controller: Type, providers: Type[] = []): Promise<CallingApp> {
  const app = await callingApp({ controllers: [controller], providers });
  afterTest(() => app.nest.close());
  return app;
}

describe('the start fails where the metadata of @Idempotent() does not reach Nest:', () => {
  const pay = (...ofMethod: MethodDecorator[]) =>
    declared('Payments', [Controller()], { pay: ofMethod });
  const Replacing: MethodDecorator = (_, __, { value }: PropertyDescriptor) =>
    Reflect.defineMetadata(INTERCEPTORS_METADATA, [], value as object);
  const onEvent = Idempotent({ message: { consumer: 'payments' } });

  it.each<[string, () => Type]>([
    ['a route', () => pay(Post(), stripping, Idempotent())],
    ['a route whose own metadata is lost', () => pay(stripping, Post(), Idempotent())],
    [
      'an inherited route',
      () => {
        abstract class Base {
          @Post()
          @stripping
          @Idempotent()
          pay() {
            return 'paid';
          }
        }
        @Controller()
        class Payments extends Base {}
        return Payments;
      },
    ],
    ['an event', () => pay(EventPattern('paid') as MethodDecorator, stripping, onEvent)],
    [
      'a mutation',
      () =>
        declared('Payments', [Resolver()], {
          pay: [Mutation(() => Boolean), stripping, Idempotent()],
        }),
    ],
    [
      'a message of a gateway',
      () =>
        declared('Payments', [WebSocketGateway()], {
          pay: [SubscribeMessage('pay'), stripping, Idempotent()],
        }),
    ],
    ['replaced interceptors', () => pay(Post(), Replacing, Idempotent())],
    [
      'a method turned into a property',
      () => {
        const Bound = (_: object, __: string, { value }: PropertyDescriptor): any => ({
          get(this: object): unknown {
            return (value as (...args: unknown[]) => unknown).bind(this);
          },
        });
        @Controller()
        class Payments {
          @Bound
          @Post()
          @Idempotent()
          pay() {
            return 'paid';
          }
        }
        return Payments;
      },
    ],
  ])('%s', async (_, define) => {
    const error = await rejection(initialised(define()));
    expect(error.code).toBe('idempotency_options_invalid');
    expect(error.message).toMatch(/^@Idempotent\(\) on Payments\.pay has no effect: /);
    expect(error.message).toContain('Put @Idempotent() above that decorator');
  });
});

describe('the start succeeds where', () => {
  async function expectProtected(controller: Type): Promise<void> {
    const scenario = (await listening(controller)).scenario();
    const first = await scenario.post('/');
    expectReplay(await scenario.post('/'), first);
    expect(scenario.executions).toBe(1);
  }

  it('a derived class overrides a protected route without protecting it', async () => {
    class Base {
      @Post()
      @stripping
      @Idempotent()
      async pay(@InScenario() scenario: Scenario) {
        return scenario.response();
      }
    }
    @Controller()
    class Payments extends Base {
      @Post()
      @stripping
      override async pay(@InScenario() scenario: Scenario) {
        return super.pay(scenario);
      }
    }
    const app = await listening(Payments);
    const scenario = app.scenario();
    await scenario.post('/');
    await scenario.post('/');
    expect(scenario.executions).toBe(2);
  });

  it('a mixin defines the route, and a decorator returns a derived class', async () => {
    const Payable = () => {
      abstract class Mixin {
        @Post()
        @copying
        @Idempotent()
        async pay(@InScenario() scenario: Scenario) {
          return scenario.response();
        }
      }
      return Mixin;
    };
    const Derived = (type: any): any => {
      const derived = class extends type {};
      Object.defineProperty(derived, 'name', { value: type.name });
      return derived;
    };
    @Derived
    @Controller()
    class Payments extends Payable() {}
    await expectProtected(Payments);
  });

  it('a class decorator wraps all methods', async () => {
    // As nestjs-otel's @Traceable() does.
    const Traced = (type: any) => {
      for (const name of Object.getOwnPropertyNames(type.prototype)) {
        const method = type.prototype[name];
        if (name === 'constructor') continue;
        const traced = new Proxy(method, {});
        copyMetadata(method, traced);
        type.prototype[name] = traced;
      }
    };
    @Traced
    @Idempotent()
    @Controller()
    class Payments {
      @Post()
      async pay(@InScenario() scenario: Scenario) {
        return scenario.response();
      }
    }
    await expectProtected(Payments);
  });

  it.each(['the class', 'the instance'])('a test spies on %s', async (where) => {
    @Controller()
    class Payments {
      @Post()
      @Idempotent()
      pay() {
        return 'paid';
      }
    }
    @Controller()
    class Spied extends Payments {
      constructor() {
        super();
        if (where === 'the instance') this.pay = jest.fn(() => 'spied');
      }
    }
    const spy =
      where === 'the class' && jest.spyOn(Payments.prototype, 'pay').mockReturnValue('spied');
    const { nest } = await initialised(Spied);
    expect(nest.get(Spied).pay()).toBe('spied');
    if (spy) spy.mockRestore();
    expect(Payments.prototype.pay()).toBe('paid');
  });

  it('the method handles no requests: it runs once with any wrapper', async () => {
    @Injectable()
    class Invoices {
      sent = 0;

      @stripping
      @Idempotent({ key: (id: string) => id })
      async send(_id: string) {
        this.sent += 1;
        return Promise.resolve(this.sent);
      }
    }
    @Controller()
    class Nothing {}
    const { nest } = await initialised(Nothing, [Invoices]);
    const invoices = nest.get(Invoices);
    expect([await invoices.send('a'), await invoices.send('a')]).toEqual([1, 1]);
    jest.spyOn(Invoices.prototype, 'send').mockResolvedValue(7);
    const spied = await initialised(Nothing, [Invoices]);
    expect(await spied.nest.get(Invoices).send('a')).toBe(7);
    jest.restoreAllMocks();
  });
});

const { consumers, openLimitedQueue } = useBroker();

// A failure before the operation is never kept. A failure that is kept shows that the operation was entered.
const options = { outcome: () => true };

it('keeps a mutation’s failure below and above another decorator', async () => {
  @Resolver()
  class Payments {
    @asynchronous
    @Mutation(() => Charge, { nullable: true })
    @asynchronous
    @Idempotent(options)
    @asynchronous
    async declined(@InDocument() scenario: Scenario) {
      throw new GraphQLError(`declined ${await scenario.run()}`);
    }
  }
  const app = await startGraphqlApp({ store: memoryStore(), resolvers: [Payments] });
  const scenario = app.scenario();
  const sending = { key: scenario.key };
  const document = 'mutation { declined { execution } }';
  const first = await ask(scenario, document, sending);
  expect(first.errors?.[0]?.message).toBe('declined 1');
  expect(await ask(scenario, document, sending)).toEqual(first);
  expect(scenario.executions).toBe(1);
  await app.close();
});

it('keeps a gateway’s failure below and above another decorator', async () => {
  @WebSocketGateway()
  class Payments extends KnownCallers {
    @asynchronous
    @SubscribeMessage('pay')
    @asynchronous
    @Idempotent(options)
    @asynchronous
    async pay(@InMessage() scenario: Scenario) {
      throw new WsException({ execution: await scenario.run() });
    }
  }
  const app = await startSocketApp({
    platform: 'ws',
    store: memoryStore(),
    gateways: [Payments],
  });
  const scenario = app.scenario();
  const client = await app.connect('alice');
  const first = await client.ask('pay', payloadOf(scenario));
  expect(first).toMatchObject({ event: 'exception', data: { execution: 1 } });
  expect(await client.ask('pay', payloadOf(scenario))).toEqual(first);
  expect(scenario.executions).toBe(1);
  await app.close();
});

it.each(['a promise', 'an Observable'])(
  'keeps an event’s failure below and above another decorator, with %s',
  async (kind) => {
    let runs = 0;

    @Controller()
    class Payments {
      @asynchronous
      @EventPattern('paid')
      @asynchronous
      @Idempotent({ ...options, message: { consumer: 'payments', onFailure: 'dead-letter' } })
      @asynchronous
      handle(_event: unknown) {
        runs += 1;
        const failure = new RpcException('declined');
        return kind === 'a promise' ? Promise.reject(failure) : throwError(() => failure);
      }
    }
    const { queue, deadLettered } = await openLimitedQueue();
    await consumers.start(queue, Payments, { store: memoryStore() });
    await queue.emit('paid', { id: 1 }, { messageId: 'm1' });
    await queue.emit('paid', { id: 1 }, { messageId: 'm1' });
    await deadLettered.holds(2);
    await queue.isEmpty();
    expect(runs).toBe(1);
  },
);
