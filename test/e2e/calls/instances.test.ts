import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Controller,
  type INestApplicationContext,
  Inject,
  Injectable,
  mixin,
  Module,
  type ModuleMetadata,
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
  type IdempotencyModuleOptions,
  IdempotencyOptionsError,
  Idempotent,
  jsonCodec,
  type OutcomeCodec,
  requireIdempotencyContext,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { PROTOCOL_DEFAULTS, REJECTION_CODES } from '../../support/internals/core.js';
import { IdempotencyInterceptor, methodRoute } from '../../support/internals/nest.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { optionAt } from '../../support/nest/option-at.js';
import { projectRoot } from '../../support/project-root.js';
import { startApp } from '../../support/http/start-app.js';

let apps: INestApplicationContext[] = [];
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  apps = [];
});

type Imports = NonNullable<ModuleMetadata['imports']>;

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

  it('is protected in a lazily loaded module, and on an instance that ModuleRef creates', async () => {
    const app = await started({});
    @Module({ providers: [Mailer] })
    class Later {}
    const loaded = await app.get(LazyModuleLoader).load(() => Later);
    const created = await app.get(ModuleRef).create(Mailer);
    for (const mailer of [loaded.get(Mailer), created]) {
      const id = randomUUID();
      expect(await mailer.send(id)).toEqual(await mailer.send(id));
    }
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

async function startedWith<Instance>(type: Type<Instance>, ...imports: Imports) {
  const app = await started({ imports, providers: [type] });
  return { app, instance: app.get(type, { strict: false }) };
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
    const { app } = await startedWith(Listener, EventEmitterModule.forRoot());
    const emitter = app.get(EventEmitter2, { strict: false });
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
    const { app } = await startedWith(ShipHandler, CqrsModule.forRoot());
    const bus = app.get(CommandBus, { strict: false });
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
    const { instance: payments } = await startedWith(Payments);
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
  async function callFromQueue<Instance extends { consume: (...args: any[]) => unknown }>(
    type: Type<Instance>,
  ) {
    const { app, instance } = await startedWith(type);
    const creator = app.get(ExternalContextCreator, { strict: false });
    const enhancers = { guards: true, interceptors: true, filters: true };
    const consume = creator.create(
      ...([instance, instance.consume, 'consume', undefined, undefined] as const),
      ...([undefined, undefined, enhancers, 'queue'] as const),
    ) as (id: string) => Promise<unknown>;
    return { consume, consumer: instance };
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
    const { consume } = await callFromQueue(Consumer);
    const id = randomUUID();
    expect([await consume(id), await consume(id)]).toEqual([1, 1]);
  });

  it('is rejected if the method handles requests of another type', async () => {
    @Injectable()
    class Consumer {
      consumed = 0;

      @Post()
      @Idempotent()
      consume(_id: string) {
        this.consumed += 1;
      }
    }
    const { consume, consumer } = await callFromQueue(Consumer);
    await expect(consume('k')).rejects.toThrow(
      '@Idempotent() on Consumer.consume does not support requests of type "queue"',
    );
    expect(consumer.consumed).toBe(0);
  });
});

async function starts(metadata: ModuleMetadata, options: Partial<IdempotencyModuleOptions> = {}) {
  const { nest } = await callingApp(metadata, options);
  await nest.close();
}

/** The message with which an application fails to start. */
async function startError(...[metadata, options]: Parameters<typeof starts>): Promise<string> {
  const error = await rejection(starts(metadata, options));
  expect(error).toBeInstanceOf(IdempotencyOptionsError);
  return error.message as string;
}

/** A service with one method that has these options. */
function service(options: object): Type {
  @Injectable()
  class Payments {
    @Idempotent(options)
    async charge(id: string) {
      return Promise.resolve(id);
    }
  }
  return Payments;
}

const key = (id: string) => id;

describe('an application starts', () => {
  it('with a method that has all options', async () => {
    const all = {
      operation: 'payments.charge',
      key,
      scope: () => 'acme',
      payload: () => 1,
      onRejected: () => undefined,
      outcome: () => true,
      duplicates: 'wait',
      lease: { duration: 1_000, onTakeover: 'reject' },
      storeErrors: { whenNotSaved: 'error' },
      transaction: false,
    };
    await expect(starts({ providers: [service(all)] })).resolves.toBeUndefined();
  });

  it('with one class in two modules', async () => {
    const Payments = service({ key });
    @Module({ providers: [Payments] })
    class Other {}
    await expect(starts({ imports: [Other], providers: [Payments] })).resolves.toBeUndefined();
  });
});

describe('a method stops the start', () => {
  it('without a key, if it handles no requests', async () => {
    const message = await startError({ providers: [service({})] });
    expect(message).toContain('Payments.charge has @Idempotent()');
    expect(message).toContain('"key"');
    expect(message).toContain('@Post()');
  });

  it('whose key is the name of a header', async () => {
    expect(await startError({ providers: [service({ key: 'X-Key' })] })).toContain('"key"');
  });

  it.each([
    ['operation', ''],
    ['scope', 'acme'],
    ['payload', {}],
    ['onRejected', 'delay'],
    ['outcome.keep', true],
  ])('with an invalid %s', async (option, value) => {
    const message = await startError({ providers: [service({ key, ...optionAt(option, value) })] });
    expect(message).toContain(`"${option}"`);
  });

  it.each([
    ['fingerprint', 'Give what is compared by "payload".'],
    ['caller', 'Give the caller by "scope".'],
    ['http', 'It is an option of request and message handlers.'],
    ['colour', 'onRejected'],
    ['keys', 'Did you mean "key"?'],
    ['store', 'IdempotencyModule.forRoot({ … })'],
  ])('with %s, which is not an option of a method', async (option, remedy) => {
    const message = await startError({ providers: [service({ key, [option]: true })] });
    expect(message).toContain(`"${option}" is not an option of @Idempotent() on a method`);
    expect(message).toContain(remedy);
  });

  it('that shares its operation with another method or a route', async () => {
    @Injectable()
    class Refunds {
      @Idempotent({ operation: 'payments', key })
      async refund(id: string) {
        return Promise.resolve(id);
      }
    }
    @Controller()
    class PaymentsController {
      @Post()
      @Idempotent({ operation: 'payments' })
      pay() {
        return 'paid';
      }
    }
    const Payments = service({ operation: 'payments', key });
    const two = await startError({ providers: [Payments, Refunds] });
    expect(two).toMatch(/Payments\.charge \(in .+\) and Refunds\.refund \(in /);
    const route = await startError({ controllers: [PaymentsController], providers: [Payments] });
    expect(route).toMatch(/PaymentsController\.pay \(POST .+, in .+\) and Payments\.charge \(in /);
  });

  it('that is static, when its class is defined', () => {
    const bad = () => {
      class Payments {
        @(Idempotent({ key }) as MethodDecorator)
        static charge(id: string) {
          return id;
        }

        refund(id: string) {
          return id;
        }
      }
      return Payments;
    };
    expect(bad).toThrow(IdempotencyOptionsError);
    expect(bad).toThrow('charge, which is static');
  });

  it('of a mixin, whose name differs in every process', async () => {
    const message = await startError({ providers: [mixin(service({ key }))] });
    expect(message).toContain('mixin() of Nest has given a random name');
    const named = mixin(service({ key, operation: 'payments' }));
    await expect(starts({ providers: [named] })).resolves.toBeUndefined();
  });

  it('of an instance that Nest did not create', async () => {
    const Payments = service({ key });
    const provided: Provider[] = [
      { provide: 'payments', useFactory: () => new Payments() as object },
      { provide: 'payments', useValue: new Payments() as object },
    ];
    for (const provider of provided) {
      const message = await startError({ providers: [provider] });
      expect(message).toContain('Payments.charge has @Idempotent()');
      expect(message).toContain('useFactory or useValue');
    }
    const known = { provide: 'payments', useFactory: (it: object) => it, inject: [Payments] };
    const alias = { provide: 'alias', useExisting: Payments };
    await expect(starts({ providers: [Payments, known, alias] })).resolves.toBeUndefined();
  });

  it('but not of an instance whose protected methods are mocks', async () => {
    const Payments = service({ key });
    const spied = new Payments() as { charge(): Promise<string> };
    jest.spyOn(spied, 'charge').mockResolvedValue('spied');
    // As Sinon's createStubInstance() does.
    const stub = Object.assign(() => undefined, { isSinonProxy: true });
    const stubbed = Object.assign(Object.create(Payments.prototype as object), { charge: stub });
    for (const double of [spied, stubbed] as object[]) {
      const providers = [{ provide: Payments, useValue: double }];
      await expect(starts({ providers })).resolves.toBeUndefined();
    }
  });
});

describe('@Idempotent() on a class', () => {
  it('stops the start where it protects no method', async () => {
    @Injectable()
    @Idempotent()
    class Payments {
      charge() {
        return 'charged';
      }
    }
    const message = await startError({ providers: [Payments] });
    expect(message).toContain('@Idempotent() on Payments protects request handlers');
    expect(message).toContain('"key"');
  });

  it('passes its options to the methods that have their own decorator', async () => {
    @Injectable()
    @Idempotent({ lease: { duration: 1_000 }, duplicates: { retryAfter: 7_000 } })
    class Payments {
      @Idempotent({ key })
      async charge(id: string): Promise<unknown> {
        return (await rejection(this.charge(id))).retryAfterMs;
      }

      @Idempotent({ key, duplicates: { retryAfter: 8_000 } })
      async refund(id: string): Promise<unknown> {
        return (await rejection(this.refund(id))).retryAfterMs;
      }
    }
    const { nest } = await callingApp({ providers: [Payments] });
    const payments = nest.get(Payments);
    expect(await payments.charge('k')).toBe(7_000);
    expect(await payments.refund('k')).toBe(8_000);
    await nest.close();
  });
});

const PAGE = 'docs/guides/calls.md';
const page = readFileSync(join(projectRoot, PAGE), 'utf8');

/** The rows of a page's table, without its header. */
function tableOf(path: string): string[][] {
  const rows = readFileSync(join(projectRoot, path), 'utf8').matchAll(/^\| (.*) \|$/gm);
  const cells = [...rows].map(([, row = '']) => row.split(' | ').map((cell) => cell.trim()));
  return cells.filter(([first = '']) => !/^-+$/.test(first)).slice(1);
}

describe('the page about calls', () => {
  it('names all options besides the protocol’s', () => {
    let known: string[] = [];
    try {
      methodRoute('A.b', { store: memoryStore() }, undefined, {
        key: String,
        nothing: 1,
      } as object);
    } catch (error) {
      known = /Valid options: (.*)\.$/.exec((error as Error).message)![1]!.split(', ');
    }
    const options = page.matchAll(/^\| `(\w+)` +\| .* +\| .* +\|$/gm);
    expect([...options].map(([, name]) => name).sort()).toEqual(
      known.filter((name) => !(name in PROTOCOL_DEFAULTS)).sort(),
    );
  });

  it.each([...new Set(Object.values(REJECTION_CODES))])('names the code %s', (code) => {
    const [, section = ''] = page.split('\n### What a caller gets\n');
    expect(section.split('\n## ')[0]).toContain(`\`${code}\``);
  });
});

describe('the table of values', () => {
  class Point {
    readonly x = 1;
  }
  const SYMBOL: unique symbol = Symbol('x');
  class Hidden {
    readonly #x = 1;
    readonly [SYMBOL] = 1;
    sum() {
      return this.#x;
    }
  }
  // Node 26 has it.
  const { Temporal } = globalThis as {
    readonly Temporal?: { PlainDate: { from(text: string): object } };
  };
  const TEMPORAL = Temporal === undefined ? [] : [Temporal.PlainDate.from('2026-11-29')];

  /** The values of each row. */
  const values: Record<string, readonly unknown[]> = {
    'texts, finite numbers, booleans, null': ['t', 1.5, true, null],
    'arrays and objects of these': [[1, ['a']], { a: { b: null } }],
    'a member that is undefined': [{ a: undefined }],
    'an item that is undefined': [[undefined]],
    'Date, URL': [new Date(0), new URL('http://a/b')],
    Temporal: TEMPORAL,
    'BigInt, Map, Set, NaN, the infinities': [1n, new Map([[1, 2]]), new Set([1]), NaN, Infinity],
    'Buffer and Uint8Array inside a value': [{ a: Buffer.from('b') }, { a: new Uint8Array([1]) }],
    'other binary data (typed arrays, ArrayBuffer)': [new Uint16Array([1]), new ArrayBuffer(1)],
    'instances of your classes': [new Point()],
    'members whose names are symbols, or private': [new Hidden()],
    'functions, symbols, circles, Errors, Promises, …': [
      () => 1,
      Symbol('s'),
      new Error('e'),
      Promise.resolve(1),
    ],
    'RegExp, Intl, URLSearchParams, `new Number(1)`': [
      /a/,
      new Intl.NumberFormat(),
      new URLSearchParams('a=1'),
      Object(1),
    ],
  };
  const rows = tableOf('docs/guides/values.md');

  it('has the rows that are tested', () => {
    expect(rows.map(([row]) => row)).toEqual(Object.keys(values));
  });

  const roundTrip = (codec: OutcomeCodec, value: unknown) => codec.decode(codec.encode(value));

  it.each(rows.map(([row = '', json = '', messagePack = '']) => ({ row, json, messagePack })))(
    'names the result for $row',
    ({ row, json, messagePack }) => {
      const expected = messagePack === 'the same' ? json : messagePack;
      for (const [codec, reported] of [
        [jsonCodec(), json],
        [messagePackCodec(), expected],
      ] as const) {
        for (const value of values[row]!) {
          if (reported.startsWith('an error')) expect(() => codec.encode(value)).toThrow();
          else if (reported === 'left out') expect(roundTrip(codec, value)).toStrictEqual({});
          else if (reported.startsWith('their members'))
            expect(roundTrip(codec, value)).toStrictEqual({ x: 1 });
          else expect(roundTrip(codec, value)).toStrictEqual(value);
        }
      }
      if (row === 'Date, URL') {
        expect(json).toContain("dates: 'text'");
        expect(roundTrip(jsonCodec({ dates: 'text' }), new Date(0))).toBe(
          '1970-01-01T00:00:00.000Z',
        );
      }
    },
  );
});
