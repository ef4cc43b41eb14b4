import { randomUUID } from 'node:crypto';
import {
  Controller,
  type INestApplicationContext,
  Inject,
  Injectable,
  Module,
  Optional,
  Post,
  type Provider,
  Scope,
  type Type,
} from '@nestjs/common';
import {
  ContextIdFactory,
  ExternalContextCreator,
  LazyModuleLoader,
  ModuleRef,
  REQUEST,
} from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { CommandBus, CommandHandler, CqrsModule, type ICommandHandler } from '@nestjs/cqrs';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  currentIdempotencyContext,
  IdempotencyModule,
  IdempotencyOptionsError,
  Idempotent,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { IdempotencyInterceptor } from '../../support/internals/nest.js';
import { callingApp, type CallingApp, rejection } from '../../support/nest/calling-app.js';
import { startApp } from '../../support/http/start-app.js';

let apps: INestApplicationContext[] = [];
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  apps = [];
});

async function started(...given: Parameters<typeof callingApp>) {
  const app = await callingApp(...given);
  apps.push(app.nest);
  return app.nest;
}

@Injectable()
class Mailer {
  protected sent = 0;

  @Idempotent({ key: (id: string) => id })
  async send(_id: string): Promise<{ sent: number; by: string; operation: string }> {
    this.sent += 1;
    const { operation } = requireIdempotencyContext();
    return Promise.resolve({ sent: this.sent, by: this.constructor.name, operation });
  }

  /** Calls the protected method through `this`. */
  async sendTwice(id: string) {
    return [await this.send(id), await this.send(id)];
  }
}

/** Has an injected property, and an optional one. */
@Injectable()
class LoudMailer extends Mailer {
  @Inject(ModuleRef) readonly modules!: ModuleRef;
  @Optional() @Inject('nothing') readonly nothing: unknown;
}

@Injectable()
class SilentMailer extends Mailer {
  override async send(id: string) {
    const reply = await super.send(id);
    return { ...reply, by: `silent ${reply.by}` };
  }
}

describe('a protected method', () => {
  it('runs once when other methods of its instance call it', async () => {
    const mailer = (await started({ providers: [Mailer] })).get(Mailer);
    const [first, second] = await mailer.sendTwice(randomUUID());
    expect(first).toEqual({ sent: 1, by: 'Mailer', operation: 'Mailer.send' });
    expect(second).toEqual(first);
  });

  it('is inherited: each class has its own operation', async () => {
    const app = await started({ providers: [Mailer, LoudMailer, SilentMailer] });
    const id = randomUUID();
    const sendTwice = async (type: Type<Mailer>) => {
      const mailer = app.get(type);
      const first = await mailer.send(id);
      expect(await mailer.send(id)).toEqual(first);
      return first;
    };
    expect(await sendTwice(Mailer)).toMatchObject({ sent: 1, operation: 'Mailer.send' });
    expect(await sendTwice(LoudMailer)).toEqual({
      sent: 1,
      by: 'LoudMailer',
      operation: 'LoudMailer.send',
    });
    // Overridden without a decorator: the base class's method runs once.
    expect(await sendTwice(SilentMailer)).toEqual({
      sent: 1,
      by: 'silent SilentMailer',
      operation: 'SilentMailer.send',
    });
    expect(app.get(LoudMailer).modules).toBeInstanceOf(ModuleRef);
    expect(app.get(LoudMailer).nothing).toBeUndefined();
  });

  it('keeps its name and length', () => {
    const method = Reflect.get(Mailer.prototype, 'send');
    expect([method.name, method.length]).toEqual(['send', 1]);
  });

  it('adds no enumerable property to its instance', async () => {
    const mailer = (await started({ providers: [Mailer] })).get(Mailer);
    expect(Object.keys(mailer)).toEqual(['sent']);
    expect(JSON.stringify(mailer)).toBe('{"sent":0}');
  });

  it('runs once for all instances of a request-scoped class, on the calling instance', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {
      constructor(@Inject(REQUEST) readonly request: { readonly name: string }) {}

      @Idempotent({ key: (id: string) => id })
      async whoIsIt(_id: string) {
        return Promise.resolve(this.request.name);
      }
    }
    const app = await started({ providers: [PerRequest] });
    const forRequest = async (name: string) => {
      const contextId = ContextIdFactory.create();
      app.registerRequestByContextId({ name }, contextId);
      return app.resolve(PerRequest, contextId);
    };
    const [alice, bob] = [await forRequest('alice'), await forRequest('bob')];
    const id = randomUUID();
    expect(await alice.whoIsIt(id)).toBe('alice');
    expect(await bob.whoIsIt(id)).toBe('alice');
    expect(await bob.whoIsIt(randomUUID())).toBe('bob');
  });

  it('runs once for all instances of a transient class', async () => {
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient extends Mailer {}
    const app = await started({ providers: [Transient] });
    const id = randomUUID();
    const [first, second] = [await app.resolve(Transient), await app.resolve(Transient)];
    expect(first).not.toBe(second);
    expect(await second.send(id)).toEqual(await first.send(id));
  });

  it('belongs to the application of its instance when there are several', async () => {
    const [one, two] = [
      await started({ providers: [Mailer] }),
      await started({ providers: [Mailer] }),
    ];
    const id = randomUUID();
    await one.get(Mailer).send(randomUUID());
    expect(await one.get(Mailer).send(id)).toMatchObject({ sent: 2 });
    expect(await two.get(Mailer).send(id)).toMatchObject({ sent: 1 });
    expect(await one.get(Mailer).send(id)).toMatchObject({ sent: 2 });
  });

  it('belongs to the IdempotencyModule that its module imports when there are two', async () => {
    @Injectable()
    class OtherMailer extends Mailer {}
    const stores = [memoryStore(), memoryStore()];
    const [inOne, inTwo] = stores.map((store) =>
      IdempotencyModule.forRoot({ store, isGlobal: false }),
    );
    @Module({ imports: [inOne!], providers: [Mailer] })
    class One {}
    @Module({ imports: [inTwo!], providers: [OtherMailer] })
    class Two {}
    const nest = await Test.createTestingModule({ imports: [One, Two] }).compile();
    apps.push(await nest.init());
    await nest.get(Mailer, { strict: false }).send('k');
    expect(stores.map(({ size }) => size)).toEqual([1, 0]);
    await nest.get(OtherMailer, { strict: false }).send('k');
    expect(stores.map(({ size }) => size)).toEqual([1, 1]);
  });

  it('is protected in a lazily loaded module', async () => {
    const app = await started({});
    @Module({ providers: [Mailer] })
    class Later {}
    const loaded = await app.get(LazyModuleLoader).load(() => Later);
    const mailer = loaded.get(Mailer);
    const id = randomUUID();
    expect(await mailer.send(id)).toEqual(await mailer.send(id));
  });

  it('is protected on an instance that ModuleRef creates', async () => {
    const app = await started({});
    const mailer = await app.get(ModuleRef).create(Mailer);
    const id = randomUUID();
    expect(await mailer.send(id)).toEqual(await mailer.send(id));
  });
});

describe('a controller', () => {
  @Controller()
  class Orders {
    placed = 0;

    @Post()
    @Idempotent({ key: () => 'k' })
    async place() {
      this.placed += 1;
      return Promise.resolve(this.placed);
    }

    @Idempotent({ key: (id: string) => id })
    async confirm(_id: string) {
      this.placed += 1;
      return Promise.resolve(this.placed);
    }
  }

  it('has routes, which other code calls as plain methods, and methods that run once', async () => {
    const orders = (await started({ controllers: [Orders] })).get(Orders);
    expect([await orders.place(), await orders.place()]).toEqual([1, 2]);
    expect([await orders.confirm('k'), await orders.confirm('k')]).toEqual([3, 3]);
  });

  it('works without the module when a test overrides the interceptor', async () => {
    const nest = await Test.createTestingModule({ controllers: [Orders] })
      .overrideInterceptor(IdempotencyInterceptor)
      .useValue({ intercept: () => undefined })
      .compile();
    apps.push(await nest.init());
    expect(await nest.get(Orders).place()).toBe(1);
    expect(await rejection(nest.get(Orders).confirm('k'))).toBeInstanceOf(IdempotencyOptionsError);
  });
});

describe('a protected method rejects instead of running unprotected', () => {
  it('in its constructor', async () => {
    let early: Promise<unknown> = Promise.resolve();
    @Injectable()
    class Hasty extends Mailer {
      constructor() {
        super();
        early = rejection(this.send('k'));
      }
    }
    await started({ providers: [Hasty] });
    expect(await early).toBeInstanceOf(IdempotencyOptionsError);
  });
});

let app: CallingApp | undefined;
afterEach(() => app?.nest.close());

async function startedWith<Instance>(
  type: Type<Instance>,
  imports: NonNullable<Parameters<typeof callingApp>[0]['imports']> = [],
  providers: Provider[] = [],
): Promise<Instance> {
  app = await callingApp({ imports, providers: [type, ...providers] });
  return app.nest.get(type, { strict: false });
}

/** Wraps a method and copies its metadata, as decorators for transactions do. */
function Around(calls: string[]): MethodDecorator {
  return (_target, name, descriptor: PropertyDescriptor) => {
    const inner = descriptor.value as (...args: unknown[]) => unknown;
    const outer = function (this: unknown, ...args: unknown[]) {
      calls.push(String(name));
      return inner.apply(this, args);
    };
    for (const key of Reflect.getMetadataKeys(inner) as unknown[]) {
      Reflect.defineMetadata(key, Reflect.getMetadata(key, inner), outer);
    }
    Object.defineProperty(outer, 'name', { value: inner.name });
    descriptor.value = outer;
  };
}

describe('a scheduled task', () => {
  // Those of Cron, with which the library's own go as well.
  beforeEach(() => void jest.useFakeTimers({ now: new Date('2030-01-01T23:59:58Z') }));
  afterEach(() => void jest.useRealTimers());

  it.each(['above', 'below'])('runs once a day across processes: @Cron() %s', async (where) => {
    const runs: string[] = [];
    const today = () => new Date().toISOString().slice(0, 10);

    @Injectable()
    class Reports {
      @(where === 'above' ? Cron('*/10 * * * * *', { timeZone: 'UTC' }) : Around([]))
      @Idempotent({ operation: 'reports.daily', key: today })
      @(where === 'below' ? Cron('*/10 * * * * *', { timeZone: 'UTC' }) : Around([]))
      async report() {
        runs.push(today());
        return Promise.resolve();
      }
    }
    const store = memoryStore({ now: () => Date.now() });
    const processes = await Promise.all(
      [1, 2].map(() =>
        callingApp({ imports: [ScheduleModule.forRoot()], providers: [Reports] }, { store }),
      ),
    );
    for (const { nest } of processes) nest.enableShutdownHooks();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(runs).toEqual(['2030-01-02']);
    const replayed = processes.flatMap(({ events }) =>
      events.filter(({ type }) => type === 'replayed'),
    );
    expect(replayed.length).toBeGreaterThan(5);
    await Promise.all(processes.map(({ nest }) => nest.close()));
  });
});

describe('an event listener', () => {
  it('handles each event once', async () => {
    const handled: string[] = [];

    @Injectable()
    class Listener {
      @OnEvent('order.placed')
      @Idempotent({ key: ({ id }: { id: string }) => id })
      async onPlaced({ id }: { id: string }) {
        handled.push(id);
        return Promise.resolve();
      }
    }
    await startedWith(Listener, [EventEmitterModule.forRoot()]);
    const emitter = app!.nest.get(EventEmitter2, { strict: false });
    for (const id of ['a', 'b', 'a']) await emitter.emitAsync('order.placed', { id });
    expect(handled).toEqual(['a', 'b']);
  });
});

describe('a command handler', () => {
  it('executes each command once', async () => {
    class Ship {
      constructor(readonly order: string) {}
    }
    @CommandHandler(Ship)
    class ShipHandler implements ICommandHandler<Ship> {
      private shipped = 0;

      @Idempotent({ operation: 'ship', key: ({ order }: Ship) => order })
      async execute(_command: Ship): Promise<number> {
        this.shipped += 1;
        return Promise.resolve(this.shipped);
      }
    }
    await startedWith(ShipHandler, [CqrsModule.forRoot()]);
    const bus = app!.nest.get(CommandBus, { strict: false });
    const order = randomUUID();
    expect(await bus.execute(new Ship(order))).toBe(1);
    expect(await bus.execute(new Ship(order))).toBe(1);
    expect(await bus.execute(new Ship(randomUUID()))).toBe(2);
  });
});

describe('another decorator that wraps the method', () => {
  const calls: string[] = [];
  beforeEach(() => void calls.splice(0));

  @Injectable()
  class Payments {
    charges = 0;

    @Around(calls)
    @Idempotent({ key: (id: string) => id })
    async outside(_id: string) {
      this.charges += 1;
      return Promise.resolve(this.charges);
    }

    @Idempotent({ key: (id: string) => id })
    @Around(calls)
    async inside(_id: string) {
      this.charges += 1;
      return Promise.resolve(this.charges);
    }
  }

  it('runs for every call outside of @Idempotent(), and only for the execution inside of it', async () => {
    const payments = await startedWith(Payments);
    const id = randomUUID();
    expect([await payments.outside(id), await payments.outside(id)]).toEqual([1, 1]);
    expect(calls).toEqual(['outside', 'outside']);
    expect([await payments.inside(id), await payments.inside(id)]).toEqual([2, 2]);
    expect(calls).toEqual(['outside', 'outside', 'inside']);
  });

  it('keeps a route a route, which other code calls as a plain method', async () => {
    @Controller('orders')
    class Orders {
      placed = 0;

      @Post()
      @Around(calls)
      @Idempotent({ caller: { anonymous: 'shared' } })
      async place() {
        this.placed += 1;
        return Promise.resolve({
          placed: this.placed,
          by: currentIdempotencyContext()?.operation ?? 'none',
        });
      }
    }
    const http = await startApp({
      platform: 'express',
      controllers: [Orders],
      store: memoryStore(),
      guard: { canActivate: () => true },
    });
    const scenario = http.scenario();
    const first = await scenario.post('/orders');
    expect(first.json).toEqual({ placed: 1, by: 'Orders.place' });
    expect((await scenario.post('/orders')).json).toEqual(first.json);
    expect(await http.nest.get(Orders).place()).toEqual({ placed: 2, by: 'none' });
    await http.close();
  });
});

describe('a caller that applies Nest’s interceptors', () => {
  /** Calls a method as a library does that reads messages from a queue. */
  function callFromQueue(instance: object, name: string): (...args: unknown[]) => Promise<unknown> {
    const method = (instance as Record<string, (...args: unknown[]) => unknown>)[name]!;
    const creator = app!.nest.get(ExternalContextCreator, { strict: false });
    const enhancers = { guards: true, interceptors: true, filters: true };
    return creator.create(
      ...([instance, method, name, undefined, undefined, undefined, undefined] as const),
      ...([enhancers, 'queue'] as const),
    );
  }

  it('is not rejected by the interceptor of @Idempotent(), and runs the method once', async () => {
    @Injectable()
    class Consumer {
      consumed = 0;

      @Idempotent({ key: (id: string) => id })
      async consume(_id: string) {
        this.consumed += 1;
        return Promise.resolve(this.consumed);
      }
    }
    const consume = callFromQueue(await startedWith(Consumer), 'consume');
    const id = randomUUID();
    expect([await consume(id), await consume(id)]).toEqual([1, 1]);
  });

  it('is rejected if the method handles requests of another type', async () => {
    @Injectable()
    class Consumer {
      consumed = 0;

      @Post()
      @Idempotent()
      consume() {
        this.consumed += 1;
      }
    }
    const consumer = await startedWith(Consumer);
    await expect(callFromQueue(consumer, 'consume')()).rejects.toThrow(
      '@Idempotent() on Consumer.consume does not support requests of type "queue"',
    );
    expect(consumer.consumed).toBe(0);
  });
});
