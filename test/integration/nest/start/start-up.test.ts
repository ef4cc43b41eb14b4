import {
  All,
  type CallHandler,
  type CanActivate,
  Controller,
  type ControllerOptions,
  type DynamicModule,
  Get,
  Head,
  type INestApplication,
  Injectable,
  Module,
  type NestInterceptor,
  Post,
  type Provider,
  RequestMethod,
  Res,
  Scope,
  SetMetadata,
  Sse,
  type Type,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { APP_GUARD, APP_INTERCEPTOR, NestFactory } from '@nestjs/core';
import { Mutation, Resolver } from '@nestjs/graphql';
import { EventPattern } from '@nestjs/microservices';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  ExpressAdapter,
  FileInterceptor,
  FilesInterceptor,
  NoFilesInterceptor,
} from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyModule,
  type Duration,
  type IdempotencyModuleOptions,
  IdempotencyOptionsError,
  IdempotencyReconciler,
  IdempotencyService,
  Idempotent,
  jsonCodec,
  StoreConfigurationError,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { payloadKey } from 'nestjs-idempotency/message';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { idempotentFetch } from 'nestjs-idempotency-client';
import { optionAt } from '../../../support/nest/option-at.js';
import { IdempotencyInterceptor } from '../../../support/internals/nest.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { type Platform, platforms } from '../../../support/http/combinations.js';
import { declared } from '../support/declared.js';

/** Starts an application, and closes it when it has started. */
async function start(
  controllers: Type[],
  options: object = {},
  how: 'forRoot' | 'forRootAsync' = 'forRoot',
  platform: Platform = 'express',
): Promise<void> {
  const all = { store: memoryStore(), ...options } as IdempotencyModuleOptions;
  const idempotency =
    how === 'forRoot'
      ? IdempotencyModule.forRoot(all)
      : IdempotencyModule.forRootAsync({ useFactory: () => all });
  const module = await Test.createTestingModule({ imports: [idempotency], controllers }).compile();
  const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter();
  const app = module.createNestApplication(adapter, { logger: false });
  try {
    await app.init();
  } finally {
    await app.close();
  }
}

/** The message with which an action is refused. */
async function refused(action: () => unknown): Promise<string> {
  const error: unknown = await Promise.resolve()
    .then(action)
    .then(
      () => undefined,
      (reason: unknown) => reason,
    );
  expect(error).toBeInstanceOf(IdempotencyOptionsError);
  expect(error).toHaveProperty('code', 'idempotency_options_invalid');
  return (error as Error).message;
}

/** A controller whose POST route `pay` has these options. */
const paying = (name: string, options: object = {}, path = name) =>
  declared(name, [Controller(path)], { pay: [Post(), Idempotent(options)] });
const Payments = declared('Payments', [Controller('payments')], {
  pay: [Post(), Idempotent()],
  list: [Get()],
});

describe('an application', () => {
  it('starts with valid options', async () => {
    await expect(start([Payments])).resolves.toBeUndefined();
  });

  describe.each(['forRoot', 'forRootAsync'] as const)('does not start with %s and', (how) => {
    it.each([
      ['null for a store', null],
      ['a client for a store', { get: () => undefined }],
    ])('%s', async (_, store) => {
      const message = await refused(() => start([], { store }, how));
      expect(message).toContain('"store"');
      expect(message).toContain('memoryStore()');
    });

    it.each([
      ['lease.duration', 99, "from '100ms' to '1h'"],
      ['limits.shutdownTimeout', -1, "from '0ms' to '1h'"],
      ['limits.maxWaiters', 1.5, '0 to 1000000'],
    ])('an invalid %s, even when no route is protected', async (option, value, range) => {
      const message = await refused(() => start([], optionAt(option, value), how));
      expect(message).toContain(`"${option}"`);
      expect(message).toContain(range);
      expect(message).toContain(String(value));
    });
  });

  it('does not start when its store reports a configuration error', async () => {
    class Misconfigured extends MemoryIdempotencyStore {
      override open() {
        return Promise.reject(new StoreConfigurationError('wrong password'));
      }
    }
    await expect(start([Payments], { store: new Misconfigured() })).rejects.toThrow(
      'wrong password',
    );
  });
});

describe('a route stops the start', () => {
  it.each<[string, Type[], object, readonly string[]]>([
    [
      'with an invalid option on its class',
      [
        declared('Bad', [Controller(), Idempotent({ http: { replayHeader: 'not a name' } })], {
          pay: [Post()],
        }),
      ],
      {},
      ['"http.replayHeader"'],
    ],
    [
      'with options that are valid alone and invalid together',
      [paying('Bad', { lease: { duration: 60_000 } })],
      { lease: { maxExecution: 30_000 } },
      ['"lease.maxExecution"'],
    ],
    [
      'when it is an @Sse() route',
      [declared('Stream', [Controller()], { events: [Sse('events'), Idempotent()] })],
      {},
      ['Stream.events', '@Sse()'],
    ],
    [
      'when its operation has the name of another one',
      [Payments, paying('Refunds', { operation: 'Payments.pay' })],
      {},
      ['"Payments.pay"', 'Refunds.pay'],
    ],
    [
      'when its class has the name of another one',
      [Payments, paying('Payments', {}, 'namesake')],
      {},
      ['"Payments.pay"'],
    ],
  ])('%s', async (_, types, options, expected) => {
    const message = await refused(() => start(types, options));
    for (const part of expected) expect(message).toContain(part);
  });

  it('when two classes inherit it with one name', async () => {
    class Base {
      @Post()
      @Idempotent({ operation: 'pay' })
      pay() {
        return 'paid';
      }
    }
    @Controller('cards')
    class Cards extends Base {}
    @Controller('transfers')
    class Transfers extends Base {}
    const message = await refused(() => start([Cards, Transfers]));
    expect(message).toContain('Cards.pay');
    expect(message).toContain('Transfers.pay');
  });

  it('when a subclass of a decorated controller declares it without a decorator', async () => {
    @Controller('base')
    @Idempotent()
    class Base {
      @Post('inherited')
      inherited() {
        return 'inherited';
      }
    }
    @Controller('sub')
    class Sub extends Base {
      @Post('own')
      own() {
        return 'own';
      }
    }
    const message = await refused(() => start([Sub]));
    expect(message).toContain('Sub.own');
    expect(message).toContain('Put @Idempotent() on Sub');
  });
});

describe('@Idempotent() is rejected', () => {
  const decorate = (descriptor: PropertyDescriptor | undefined) => () =>
    Idempotent()(Payments.prototype as object, 'total', descriptor!);

  it.each([
    ['a property', undefined],
    ['a getter', { get: () => 1 }],
    ['a constant', { value: 1 }],
  ])('on %s', (_, descriptor) => {
    expect(decorate(descriptor)).toThrow(IdempotencyOptionsError);
    expect(decorate(descriptor)).toThrow('total');
  });
});

type Decorate = MethodDecorator & ClassDecorator;

/** A class with one method, declared for each transport. */
interface Place {
  readonly of: 'controllers' | 'providers';
  readonly type: (...decorators: Decorate[]) => Type;
}

const orders = (ofClass: ClassDecorator, ofMethod: MethodDecorator[], on: Decorate[]) =>
  declared('Orders', [ofClass], { create: [...on, ...ofMethod] });

const places: Readonly<Record<string, Place>> = {
  route: { of: 'controllers', type: (...on) => orders(Controller(), [Post()], on) },
  'message handler': {
    of: 'controllers',
    type: (...on) => orders(Controller(), [EventPattern('created') as MethodDecorator], on),
  },
  gateway: {
    of: 'providers',
    type: (...on) => orders(WebSocketGateway(), [SubscribeMessage('create')], on),
  },
  resolver: {
    of: 'providers',
    type: (...on) => orders(Resolver(), [Mutation(() => String)], on),
  },
  service: { of: 'providers', type: (...on) => orders(Injectable(), [], on) },
};

const apps: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

/** Starts an application whose module OrdersModule holds the class. */
async function startOrders(
  type: Type,
  of: Place['of'],
  idempotency: DynamicModule | undefined,
  providers: object[] = [],
): Promise<void> {
  @Module({ [of]: [type] })
  class OrdersModule {}
  const module = await Test.createTestingModule({
    imports: [...(idempotency ? [idempotency] : []), OrdersModule],
    providers: providers as never,
  })
    .setLogger(new LoggedLines())
    .compile();
  apps.push(module);
  await module.init();
}

const forRoot = (options: object = {}) =>
  IdempotencyModule.forRoot({
    store: memoryStore(),
    message: { consumer: 'orders' },
    ...options,
  });

const byArguments = { key: () => 'k' };

describe.each(Object.entries(places))('a protected %s stops the start', (name, { of, type }) => {
  const idempotent = (options: object = {}) =>
    Idempotent({ ...(name === 'service' && byArguments), ...options });

  it('not when it is used correctly', async () => {
    await expect(startOrders(type(idempotent()), of, forRoot())).resolves.toBeUndefined();
  });

  it('without IdempotencyModule, and names where to import it', async () => {
    const message = await refused(() => startOrders(type(idempotent()), of, undefined));
    expect(message).toBe(
      '@Idempotent() on Orders.create (module OrdersModule) has no IdempotencyModule: import IdempotencyModule.forRoot({ … }) in the root module. In a test, import IdempotencyTestingModule.passThrough() from nestjs-idempotency/testing instead, which turns it off.',
    );
  });

  it('with an IdempotencyModule that its module does not import', async () => {
    const local = IdempotencyModule.forRoot({
      store: memoryStore(),
      message: { consumer: 'orders' },
      isGlobal: false,
    });
    const message = await refused(() => startOrders(type(idempotent()), of, local));
    expect(message).toContain('@Idempotent() on Orders.create (module OrdersModule) has no');
    expect(message).toContain('isGlobal: false, where OrdersModule does not see it');
  });

  const named = '@Idempotent() on Orders.create (module OrdersModule): ';
  it.each<[string, object, RegExp | string]>([
    [
      'with a misspelt option, and suggests the right one',
      { lease: { durationMS: 1 } },
      /^"lease\.durationMS".* Did you mean "lease\.duration"\?$/,
    ],
    [
      'with an option of the module, and names its place',
      { limits: { maxWaiters: 1 } },
      / It is an option of the module: IdempotencyModule\.forRoot\(\{ … \}\)\.$/,
    ],
    [
      'with a value out of range',
      { lease: { duration: 1 } },
      /^The option "lease\.duration" must be a duration from '100ms' to '1h' .* but it is 1\.$/,
    ],
  ])('%s', async (_, options, expected) => {
    const message = await refused(() => startOrders(type(idempotent(options)), of, forRoot()));
    expect(message.slice(0, named.length)).toBe(named);
    expect(message.slice(named.length)).toMatch(expected);
  });

  it('with the interceptor and without @Idempotent()', async () => {
    const bound = type(UseInterceptors(IdempotencyInterceptor));
    const message = await refused(() => startOrders(bound, of, forRoot()));
    expect(message).toContain('IdempotencyInterceptor is bound to Orders.create by itself');
    expect(message).toContain('put @Idempotent() on each handler');
  });

  it('with the interceptor on its class', async () => {
    const bound = type(idempotent());
    UseInterceptors(IdempotencyInterceptor)(bound);
    const message = await refused(() => startOrders(bound, of, forRoot()));
    expect(message).toContain('IdempotencyInterceptor is bound to Orders by itself');
  });
});

describe('IdempotencyInterceptor for all handlers stops the start', () => {
  const { of, type } = places.route!;

  it.each([
    ['', forRoot(), 'bound to the whole application'],
    [
      ' without IdempotencyModule',
      undefined,
      'has no IdempotencyModule: import IdempotencyModule.forRoot',
    ],
  ])('by APP_INTERCEPTOR%s', async (_, idempotency, expected) => {
    const providers = [{ provide: APP_INTERCEPTOR, useClass: IdempotencyInterceptor }];
    expect(await refused(() => startOrders(type(), of, idempotency, providers))).toContain(
      expected,
    );
  });

  it('by useGlobalInterceptors()', async () => {
    const module = await Test.createTestingModule({
      imports: [forRoot()],
      controllers: [type()],
      providers: [IdempotencyInterceptor],
    }).compile();
    const app = module.createNestApplication({ logger: false });
    apps.push(app);
    app.useGlobalInterceptors(app.get(IdempotencyInterceptor));
    expect(await refused(() => app.init())).toContain('bound to the whole application');
  });
});

it('an error of the options factory is reported, not a missing module', async () => {
  const failing = IdempotencyModule.forRootAsync({
    useFactory: () => Promise.reject(new Error('no configuration')),
  });
  const { of, type } = places.route!;
  await expect(startOrders(type(Idempotent()), of, failing)).rejects.toThrow('no configuration');
});

describe('an unknown option', () => {
  const url = 'redis://127.0.0.1:1';
  const postgres = 'postgres://127.0.0.1:1/db';
  const as = (options: object) => options as never;

  it.each([
    ['redisStore', () => redisStore(as({ url, keyprefix: 'x' })), 'keyPrefix'],
    ['redisStore', () => redisStore(as({ urll: url })), 'url'],
    ['waitReplicas', () => redisStore(as({ url, waitReplicas: { cuont: 1 } })), 'count'],
    [
      'postgresStore',
      () => postgresStore(as({ url: postgres, tabel: 'x' })),
      'table" or "journal.table',
    ],
    [
      'postgresStore',
      () => postgresStore(as({ url: postgres, deleteExpired: { batchsize: 1 } })),
      'deleteExpired.batchSize',
    ],
    ['memoryStore', () => memoryStore(as({ maxRecord: 1 })), 'maxRecords'],
    ['jsonCodec()', () => jsonCodec(as({ date: 'text' })), 'dates'],
    ['payloadKey()', () => payloadKey(as({ includes: ['id'] })), 'include'],
  ])('of %s is rejected with a suggestion', async (what, make, meant) => {
    const message = await refused(make);
    expect(message).toMatch(new RegExp(`Did you mean "${meant}"\\?$`));
    expect(message).toContain(`is not an option of ${what}.`);
  });

  it.each(['client', 'pool'])('of postgresStore is rejected as an executor: %s', async (name) => {
    const message = await refused(() => postgresStore(as({ [name]: {} })));
    expect(message).toContain(`"${name}" is not an option of postgresStore. Pass { executor: `);
  });

  it('of redisStore is rejected as one of ioredis', async () => {
    const message = await refused(() => redisStore(as({ host: 'localhost' })));
    expect(message).toContain('redisStore({ connection: { … } })');
  });

  it('of idempotentFetch is rejected with a suggestion', async () => {
    const options = as({ deadlineMs: 1 });
    await expect(idempotentFetch('http://127.0.0.1:1', {}, options)).rejects.toThrow(
      '"deadlineMs" is not an option of idempotentFetch. Did you mean "deadline"?',
    );
  });

  describe('of a call is rejected', () => {
    const call = { operation: 'invoice.send', key: 'secret-key', scope: 'secret-caller' };

    async function nest() {
      const module = await Test.createTestingModule({ imports: [forRoot()] }).compile();
      apps.push(module);
      return module.init();
    }

    it.each([
      [{ lease: { durationMS: 1 } }, 'Did you mean "lease.duration"?'],
      [{ limits: { maxWaiters: 1 } }, 'It is an option of the module'],
      [{ caller: {} }, 'Give the caller by "scope".'],
      [{ http: {} }, 'It is an option of request and message handlers.'],
      [
        { lease: { duration: 1 } },
        'IdempotencyService.run() of "invoice.send": The option "lease.duration" must',
      ],
      [{ outcome: 1 }, 'IdempotencyService.run() of "invoice.send": The option "outcome" must'],
    ])('of IdempotencyService.run(), %j', async (options, remedy) => {
      const service = (await nest()).get(IdempotencyService);
      const message = await refused(() => service.run(as({ ...call, ...options }), () => 1));
      expect(message).toContain(remedy);
      expect(message).not.toContain('secret');
    });

    it.each([
      [{ durationMS: 1 }, 'Did you mean "lease.duration"?'],
      [
        { duration: 1 },
        'IdempotencyReconciler.register() of "invoice.send": The option "lease.duration"',
      ],
    ])('of IdempotencyReconciler.register(), lease: %j', async (options, remedy) => {
      const reconciler = (await nest()).get(IdempotencyReconciler);
      const recover = { lease: { onTakeover: () => 'run' as const, ...options } };
      const message = await refused(() => {
        reconciler.register('invoice.send', as(recover));
      });
      expect(message).toContain(remedy);
    });
  });
});

interface Start {
  readonly platform?: Platform;
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
}

/** The start error of an application; `undefined` when it starts. */
async function complaint(controller: Type, { platform, options }: Start = {}) {
  try {
    await start([controller], options, 'forRoot', platform);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  }
}

class Passing implements NestInterceptor {
  intercept(_: unknown, next: CallHandler) {
    return next.handle();
  }
}

const parsing = UseInterceptors(FileInterceptor('file'));
const passing = UseInterceptors(Passing);

/** A route with the decorators `ofMethod`, on a class with `ofClass`. */
const forms = (ofClass: ClassDecorator[], ...ofMethod: MethodDecorator[]) =>
  declared('Forms', [Controller(), ...ofClass], { upload: [Post(), ...ofMethod], list: [Get()] });

describe('C47 a form that is parsed inside of the interceptor', () => {
  it.each(platforms)('stops the start on %s with a remedy', async (platform) => {
    const message = await complaint(forms([], parsing, Idempotent()), { platform });
    expect(message).toMatch(/form of Forms\.upload is parsed inside IdempotencyInterceptor/);
    expect(message).toMatch(/below @Idempotent\(\)/);
    expect(message).toMatch(/option "fingerprint" to a function/);
  });

  it.each([
    ['several files', FilesInterceptor('file')],
    ['only fields', NoFilesInterceptor()],
    ['an interceptor of its own', class extends FileInterceptor('file') {}],
    ['an instance', new (FileInterceptor('file'))()],
  ])('stops the start with %s', async (_, interceptor) => {
    const type = forms([], UseInterceptors(Passing, interceptor), Idempotent());
    expect(await complaint(type)).toContain('Forms.upload');
  });

  it('stops the start even with outer interceptors that do not parse', async () => {
    const idempotent = Idempotent({ fingerprint: { exclude: ['note'] } });
    const type = forms([passing], parsing, idempotent, passing);
    expect(await complaint(type)).toContain('Forms.upload');
  });

  it.each([
    ['a function', () => 'the same'],
    ['nothing', false],
  ] as const)('starts when %s is compared', async (_, fingerprint) => {
    expect(await complaint(forms([], parsing, Idempotent({ fingerprint })))).toBeUndefined();
  });
});

describe('C47 a form that is parsed inside of the interceptor, when it may not be compared', () => {
  const uploads = (route: MethodDecorator, options: object = {}) =>
    declared('Uploads', [Controller()], { upload: [route, parsing, Idempotent(options)] });

  it.each([
    ['of the operation', { enabled: false }, {}],
    ['of the module', {}, { enabled: false }],
  ])('starts when "enabled" %s is false', async (_, ofOperation, options) => {
    expect(await complaint(uploads(Post(), ofOperation), { options })).toBeUndefined();
  });

  it.each([
    ['GET', Get()],
    ['HEAD', Head()],
  ])('starts on a route of the safe method %s', async (_, route) => {
    expect(await complaint(uploads(route))).toBeUndefined();
  });

  it.each([
    ['when a function decides', Post(), { enabled: () => false }],
    ['on a route of all methods', All(), {}],
  ])('stops the start %s', async (_, route, options) => {
    expect(await complaint(uploads(route, options))).toContain('Uploads.upload');
  });
});

describe('C47 a form that is parsed outside of the interceptor starts', () => {
  it.each([
    ['below @Idempotent()', forms([], passing, Idempotent(), parsing)],
    ['on the class', forms([parsing], passing, Idempotent())],
    ['on the method, with @Idempotent() on the class', forms([Idempotent()], parsing)],
    ['by middleware or by an unknown interceptor', forms([], passing, Idempotent())],
  ])('%s', async (_, type) => {
    expect(await complaint(type)).toBeUndefined();
  });
});

let app: INestApplication | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
});

function moduleNamed(name: string): Type {
  @Module({})
  class Named {}
  return Object.defineProperty(Named, 'name', { value: name });
}

async function create(
  modules: Readonly<Record<string, Type>>,
  providers: Provider[] = [],
): Promise<LoggedLines> {
  const lines = new LoggedLines();
  const imports = Object.entries(modules).map(([name, controller]) => ({
    module: moduleNamed(name),
    controllers: [controller],
  }));
  app = await NestFactory.create(
    {
      module: moduleNamed('AppModule'),
      imports: [IdempotencyModule.forRoot({ store: memoryStore() }), ...imports],
      providers,
    },
    { logger: lines, abortOnError: false },
  );
  return lines;
}

/** The warnings of the library for an application that is initialized but does not listen. */
async function said(...controllers: Type[]): Promise<string[]> {
  const modules = controllers.map((controller, i) => [`Module${i}`, controller] as const);
  const lines = await create(Object.fromEntries(modules));
  await app?.init();
  return lines.own;
}

const things = (methods: Record<string, MethodDecorator[]>, ...ofClass: ClassDecorator[]) =>
  declared('Things', [Controller('things'), ...ofClass], methods);

describe('@Idempotent() on a class', () => {
  it('does not affect event streams and other safe routes', async () => {
    const idempotent = Idempotent({ operation: 'things.make', lease: { onTakeover: () => 'run' } });
    const type = things({ events: [Sse('events')], list: [Get()], make: [Post()] }, idempotent);
    // It shows that the response is the route's own.
    Res()(type.prototype as object, 'list', 0);
    expect(await said(type)).toEqual([]);
  });

  it('stops the start with a stream that is read by POST', async () => {
    const stream = Sse('events', { method: RequestMethod.POST });
    const message = 'Things.events is an @Sse() route';
    await expect(said(things({ events: [stream] }, Idempotent()))).rejects.toThrow(message);
  });
});

describe('a warning at the start', () => {
  it('reports @Idempotent() on methods whose requests are never protected', async () => {
    const type = things({
      find: [Get(':id'), Idempotent()],
      lookUp: [Head(), Idempotent()],
      list: [Get(), Idempotent({ enabled: false })],
    });
    expect(await said(type)).toEqual([
      expect.stringMatching(/^warn: .*Things\.find \(GET \/things\/:id, in Module0\).*no effect/),
      expect.stringMatching(/^warn: .*Things\.lookUp \(HEAD \/things, in Module0\).*no effect/),
    ]);
  });

  it('reports two with different options', async () => {
    const leases = (...each: number[]) =>
      each.map((leaseMs) => Idempotent({ lease: { duration: leaseMs } }));
    const methods = {
      twice: [Post('twice'), ...leases(10_000, 20_000)],
      alike: [Post('alike'), ...leases(10_000, 10_000)],
    };
    expect(await said(things(methods, Idempotent({ key: { required: false } })))).toEqual([
      expect.stringMatching(/^warn: .*Things\.twice more than once, with different options/),
    ]);
  });

  it('spells a retention below ten minutes in seconds', async () => {
    const kept = (retention: Duration | (() => Duration)) => Idempotent({ outcome: { retention } });
    const type = things({
      // Seconds were meant.
      day: [Post('day'), kept(86_400)],
      again: [Post('again'), kept('86400ms')],
      short: [Post('short'), kept('9m')],
      enough: [Post('enough'), kept('10m')],
      chosen: [Post('chosen'), kept(() => '1s')],
      off: [Post('off'), Idempotent({ enabled: false, outcome: { retention: '1s' } })],
    });
    const warning = (operations: string, seconds: string) =>
      expect.stringContaining(
        `"outcome.retention" of ${operations} is ${seconds} s: a retry after`,
      );
    expect(await said(type)).toEqual([
      warning('Things.day, Things.again', '86.4'),
      warning('Things.short', '540'),
    ]);
  });

  it('reports a class of two modules once', async () => {
    const type = things({ find: [Get(), Idempotent()] });
    expect(await said(type, type)).toEqual([expect.stringContaining('in Module0 and Module1')]);
  });
});

describe("caller.anonymous: 'shared'", () => {
  class TokenGuard implements CanActivate {
    canActivate(): boolean {
      return true;
    }
  }
  /** Limits requests, and authenticates none. */
  class ThrottlerGuard extends TokenGuard {}
  class OwnThrottlerGuard extends ThrottlerGuard {}

  const shared = Idempotent({ caller: { anonymous: 'shared' } });
  const warning = (guard: string) =>
    expect.stringMatching(
      new RegExp(
        `^warn: Things\\.make \\(POST /things/make, in Module0\\) has a guard \\(${guard}\\) and .*'shared'.*Leave 'shared' out`,
      ),
    );

  it.each<[string, Type]>([
    ['the method', things({ make: [Post('make'), UseGuards(TokenGuard), shared] })],
    [
      'the method, as an instance',
      things({ make: [Post('make'), shared, UseGuards(new TokenGuard())] }),
    ],
    ['the class', things({ make: [Post('make'), shared] }, UseGuards(TokenGuard))],
    [
      'the class, with both decorators',
      things({ make: [Post('make')] }, UseGuards(TokenGuard), shared),
    ],
  ])('causes a warning where a guard is on %s', async (_, type) => {
    expect(await said(type)).toEqual([warning('TokenGuard')]);
  });

  it.each<[string, Provider | undefined]>([
    ['useGlobalGuards()', undefined],
    ['APP_GUARD', { provide: APP_GUARD, useClass: TokenGuard }],
    [
      'APP_GUARD, of each request',
      { provide: APP_GUARD, useClass: TokenGuard, scope: Scope.REQUEST },
    ],
  ])('causes a warning where a guard is bound by %s', async (_, guard) => {
    const lines = await create(
      { Module0: things({ make: [Post('make'), shared] }) },
      guard === undefined ? [] : [guard],
    );
    if (guard === undefined) app?.useGlobalGuards(new TokenGuard());
    await app?.init();
    expect(lines.own).toEqual([warning('TokenGuard')]);
  });

  it('causes a warning on a gateway and a mutation, too', async () => {
    const ws = [SubscribeMessage('pay'), UseGuards(TokenGuard), shared];
    const lines = await create({}, [
      declared('Gateway', [], { pay: ws }),
      declared('Payments', [], {
        pay: [SetMetadata('graphql:resolver_type', 'Mutation'), UseGuards(TokenGuard), shared],
      }),
    ]);
    await app?.init();
    expect(lines.own).toEqual([
      expect.stringContaining('Gateway.pay'),
      expect.stringContaining('Payments.pay'),
    ]);
  });

  it('causes none without a guard, where nothing is protected, and where a guard only limits requests', async () => {
    const type = things(
      {
        open: [Post('open'), shared],
        off: [
          Post('off'),
          UseGuards(TokenGuard),
          Idempotent({ enabled: false, caller: { anonymous: 'shared' } }),
        ],
        read: [Get('read'), UseGuards(TokenGuard)],
        limited: [Post('limited'), UseGuards(OwnThrottlerGuard), shared],
        known: [Post('known'), UseGuards(TokenGuard), Idempotent()],
      },
      Idempotent({ caller: { anonymous: 'reject' } }),
    );
    expect(await said(type)).toEqual([]);
  });
});

describe('the option "scope" of a method that is not a handler', () => {
  const byId = (id: string) => id;
  const of = (options: object) => declared('Orders', [], { pay: [Idempotent(options as never)] });
  const warning = expect.stringMatching(
    /^warn: The option "key" .*Orders\.pay \(in AppModule\), .*\(\) => \[\] where no client chooses/,
  );

  it.each<[string, object, unknown[]]>([
    ['a warning where its arguments give the key', { key: byId }, [warning]],
    ['none where it says whose key it is', { key: byId, scope: () => 'tenant' }, []],
    ['none where it says that all callers share it', { key: byId, scope: () => [] }, []],
    ['none where the method makes the key itself', { key: () => 'today' }, []],
  ])('causes %s', async (_, options, expected) => {
    const lines = await create({}, [of(options)]);
    await app?.init();
    expect(lines.own).toEqual(expected);
  });

  it('is missed once for all methods', async () => {
    const lines = await create({}, [
      of({ key: byId }),
      declared('Mails', [], { send: [Idempotent({ key: byId } as never)] }),
    ]);
    await app?.init();
    expect(lines.own).toEqual([
      expect.stringContaining('Orders.pay (in AppModule), Mails.send (in AppModule)'),
    ]);
  });
});

describe('two controllers with one name', () => {
  const controller = (options: ControllerOptions, path: string) =>
    declared('Things', [Controller(options)], { make: [Post(path), Idempotent()] });

  it('are identified by path and module', async () => {
    const types = ['v1', 'v2'].map((path) => controller({ path }, 'made'));
    await expect(said(...types)).rejects.toThrow(
      'Two operations are named "Things.make": Things.make (POST /v1/made, in Module0) and Things.make (POST /v2/made, in Module1).',
    );
  });

  it('are identified by their versions', async () => {
    const types = ['1', ['2', '3']].map((version) => controller({ path: 'things', version }, ''));
    await expect(said(...types)).rejects.toThrow(
      'Things.make (POST /things (version 1), in Module0) and Things.make (POST /things (version 2, 3), in Module1).',
    );
  });
});

describe('an application that no signal closes', () => {
  const warning = expect.stringContaining('app.enableShutdownHooks()');

  it('causes a warning when it listens, and not before', async () => {
    const lines = await create({});
    await app?.init();
    expect(lines.own).toEqual([]);
    await app?.listen(0, '127.0.0.1');
    await new Promise(setImmediate);
    expect(lines.own).toEqual([warning]);
  });

  it('causes no warning with shutdown hooks, enabled before or after', async () => {
    for (const isBefore of [true, false]) {
      const lines = await create({});
      if (isBefore) app?.enableShutdownHooks();
      await app?.listen(0, '127.0.0.1');
      if (!isBefore) app?.enableShutdownHooks();
      await new Promise(setImmediate);
      expect(lines.own).toEqual([]);
      await app?.close();
    }
  });

  it('causes no warning with a signal handler of its own', async () => {
    const lines = await create({});
    const handler = () => void app?.close();
    process.once('SIGTERM', handler);
    try {
      await app?.listen(0, '127.0.0.1');
      await new Promise(setImmediate);
    } finally {
      process.removeListener('SIGTERM', handler);
    }
    expect(lines.own).toEqual([]);
  });
});
