import { setTimeout as nextMacrotask } from 'node:timers/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import {
  Controller,
  type DynamicModule,
  forwardRef,
  Injectable,
  Module,
  Post,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { EventPattern } from '@nestjs/microservices';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyModule,
  type IdempotencyModuleOptions,
  type IdempotencyOptionsFactory,
  IdempotencyReconciler,
  IdempotencyService,
  IdempotencyStore,
  Idempotent,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import type { Begin, StoreObserver } from 'nestjs-idempotency/store';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { config } from 'rxjs';
import { LoggedLines } from '../../../support/nest/logged-lines.js';
import { declared } from '../support/declared.js';

const Payments = declared('Payments', [Controller()], { pay: [Post(), Idempotent()] });

/** The providers that an application injects. */
@Injectable()
class Ledger {
  constructor(
    readonly store: IdempotencyStore,
    readonly service: IdempotencyService,
    readonly events: IdempotencyEvents,
  ) {}
}

@Module({ providers: [Ledger], exports: [Ledger] })
class LedgerModule {}

@Injectable()
class Settings {
  readonly store = memoryStore();
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

@Injectable()
class OptionsFromSettings implements IdempotencyOptionsFactory {
  constructor(private readonly settings: Settings) {}

  async createIdempotencyOptions(): Promise<IdempotencyModuleOptions> {
    return { store: this.settings.store };
  }
}

@Module({
  imports: [SettingsModule],
  providers: [OptionsFromSettings],
  exports: [OptionsFromSettings],
})
class OptionsModule {}

let started: TestingModule | undefined;
let unhandled: unknown[];

beforeEach(() => {
  unhandled = [];
  config.onUnhandledError = (error) => void unhandled.push(error);
});

afterEach(async () => {
  await started?.close();
  started = undefined;
  config.onUnhandledError = null;
});

async function start(...imports: (DynamicModule | Type)[]): Promise<TestingModule> {
  started = await Test.createTestingModule({ imports }).compile();
  return await started.init();
}

/** The store, the service and the events are provided, and they belong together. */
async function expectToWork(app: TestingModule, store?: IdempotencyStore) {
  const ledger = app.get(Ledger, { strict: false });
  if (store !== undefined) expect(ledger.store).toBe(store);
  const reported: string[] = [];
  ledger.events.subscribe(({ type }) => void reported.push(type));
  const call = { operation: 'pay', key: 'k', scope: 'alice' };
  expect(await ledger.service.run(call, () => 'paid')).toBe('paid');
  expect(await ledger.service.run(call, () => 'paid again')).toBe('paid');
  expect(reported).toEqual(['acquired', 'completed', 'ended', 'replayed']);
}

describe('forRoot', () => {
  it('provides the store, the service and the events to every module', async () => {
    const store = memoryStore();
    const app = await start(IdempotencyModule.forRoot({ store }), LedgerModule);
    await expectToWork(app, store);
  });

  it('works in an application without HTTP', async () => {
    @Module({ imports: [IdempotencyModule.forRoot({ store: memoryStore() }), LedgerModule] })
    class Worker {}
    const context = await NestFactory.createApplicationContext(Worker, { logger: false });
    const { service } = context.get(Ledger, { strict: false });
    const call = { operation: 'send', key: 'mail-1', scope: 'mailer' };
    expect(await service.run(call, () => 1)).toBe(1);
    expect(await service.run(call, () => 2)).toBe(1);
    await context.close();
    // RxJS rethrows a subscriber's error from a timer, which would end the process.
    await nextMacrotask();
    expect(unhandled).toEqual([]);
  });

  it('creates separate engines for two applications in one process', async () => {
    const one = await start(IdempotencyModule.forRoot({ store: memoryStore() }), LedgerModule);
    const two = await Test.createTestingModule({
      imports: [IdempotencyModule.forRoot({ store: memoryStore() }), LedgerModule],
    }).compile();
    const call = { operation: 'pay', key: 'k', scope: 'alice' };
    const pay = (app: TestingModule, value: string) =>
      app.get(Ledger, { strict: false }).service.run(call, () => value);
    expect([await pay(one, 'one'), await pay(two, 'two')]).toEqual(['one', 'two']);
    await two.close();
    expect(await pay(one, 'again')).toBe('one');
  });
});

describe('forRootAsync', () => {
  it.each([
    [
      'a factory with its dependencies',
      {
        imports: [SettingsModule],
        inject: [Settings],
        useFactory: async ({ store }: Settings) => ({ store }),
      },
    ],
    [
      'a class, whose dependencies are injected',
      { imports: [SettingsModule], useClass: OptionsFromSettings },
    ],
    ['an existing provider', { imports: [OptionsModule], useExisting: OptionsFromSettings }],
  ])('takes %s', async (_, options) => {
    const app = await start(IdempotencyModule.forRootAsync(options), LedgerModule);
    await expectToWork(app, app.get(Settings, { strict: false }).store);
  });

  it('takes a factory without a promise and without dependencies', async () => {
    const store = memoryStore();
    const options = IdempotencyModule.forRootAsync({ useFactory: () => ({ store }) });
    await expectToWork(await start(options, LedgerModule), store);
  });

  it('stops the start when the factory fails', async () => {
    const options = IdempotencyModule.forRootAsync({
      useFactory: () => Promise.reject(new Error('no configuration')),
    });
    await expect(start(options, LedgerModule)).rejects.toThrow('no configuration');
  });
});

const store = memoryStore;
const local: [string, () => DynamicModule][] = [
  ['forRoot', () => IdempotencyModule.forRoot({ store: store(), isGlobal: false })],
  [
    'forRootAsync',
    () =>
      IdempotencyModule.forRootAsync({ useFactory: () => ({ store: store() }), isGlobal: false }),
  ],
];

describe.each(local)('with isGlobal: false, %s', (_, local) => {
  it('serves the modules that import it', async () => {
    const idempotency = local();
    @Module({
      imports: [idempotency],
      controllers: [Payments],
      providers: [Ledger],
    })
    class PaymentsModule {}
    await expectToWork(await start(PaymentsModule));
  });

  it('serves no other module', async () => {
    await expect(start(local(), LedgerModule)).rejects.toThrow(
      /can't resolve dependencies of the Ledger/,
    );
  });

  it('stops the start when a route of another module is decorated', async () => {
    @Module({ controllers: [Payments] })
    class PaymentsModule {}
    await expect(start(local(), PaymentsModule)).rejects.toThrow(
      '@Idempotent() on Payments.pay (module PaymentsModule) has no IdempotencyModule: it is imported with isGlobal: false',
    );
  });
});

describe('IdempotencyModule more than once', () => {
  const once = (isGlobal?: boolean) =>
    IdempotencyModule.forRoot({
      store: memoryStore(),
      ...(isGlobal !== undefined && { isGlobal }),
    });

  it('for the whole application stops the start, and the error names both places', async () => {
    @Module({ imports: [once()] })
    class PaymentsModule {}
    @Module({ imports: [once(), PaymentsModule] })
    class ShopModule {}
    const message = /globally 2 times, by ShopModule and PaymentsModule/;
    await expect(start(ShopModule)).rejects.toThrow(message);
  });

  it('is also found in dynamic modules and behind forwardRef', async () => {
    @Module({})
    class FeatureModule {}
    @Module({ imports: [forwardRef(() => once() as never)] })
    class ShopModule {}
    const feature = { module: FeatureModule, imports: [once()] };
    await expect(start(ShopModule, feature)).rejects.toThrow(
      /by (ShopModule and FeatureModule|FeatureModule and ShopModule)/,
    );
  });

  it('with options of its own in one module stops the start', async () => {
    @Module({ imports: [once(false), once(false)] })
    class PaymentsModule {}
    await expect(start(PaymentsModule)).rejects.toThrow(
      /PaymentsModule imports IdempotencyModule more than once/,
    );
  });

  it('is allowed when it is the same object, or a global one beside others', async () => {
    const shared = once();
    @Module({ imports: [shared, once(false)] })
    class PaymentsModule {}
    await expectToWork(await start(shared, PaymentsModule, LedgerModule));
  });
});

describe('Two modules with isGlobal: false', () => {
  const ordering = Idempotent({ operation: 'order' });
  const Orders = declared('Orders', [Controller('orders')], { order: [Post(), ordering] });

  /** Its options lack those that the handlers of the other module need. */
  @Module({
    imports: [IdempotencyModule.forRoot({ store: memoryStore(), isGlobal: false })],
    controllers: [Orders],
  })
  class OrdersModule {}

  const billing = (...controllers: Type[]): DynamicModule => {
    @Module({})
    class BillingModule {}
    const idempotency = IdempotencyModule.forRoot({
      ...{ store: memoryStore(), message: { consumer: 'billing' }, isGlobal: false },
    });
    return { module: BillingModule, imports: [idempotency], controllers };
  };

  it('check only the handlers of their own', async () => {
    const onEvent = EventPattern('ordered') as MethodDecorator;
    const Bills = declared('Bills', [Controller()], { bill: [onEvent, Idempotent()] });
    await expect(start(OrdersModule, billing(Bills))).resolves.toBeDefined();
    await started!.close();
    await expect(start(billing(Bills), OrdersModule)).resolves.toBeDefined();
  });

  it('can share a store: operation names must be distinct across both', async () => {
    const Bills = declared('Bills', [Controller('bills')], { bill: [Post(), ordering] });
    const message = 'Two operations are named "order"';
    await expect(start(OrdersModule, billing(Bills))).rejects.toThrow(message);
  });
});

describe('The class itself, without forRoot()', () => {
  it('is reported as such, also beside a global module', async () => {
    @Module({ imports: [IdempotencyModule] })
    class PaymentsModule {}
    const message = 'If a module imports the class without forRoot()';
    await expect(start(PaymentsModule)).rejects.toThrow(message);
    const global = IdempotencyModule.forRoot({ store: memoryStore() });
    await expect(start(global, PaymentsModule)).rejects.toThrow(message);
  });
});

describe('Another copy of the package', () => {
  it('is reported when its module is the imported one', async () => {
    @Injectable()
    class HandlerTransports {}
    @Module({ providers: [HandlerTransports], exports: [HandlerTransports] })
    class IdempotencyModule {}
    @Module({ imports: [IdempotencyModule], controllers: [Payments] })
    class PaymentsModule {}
    await expect(start(PaymentsModule)).rejects.toThrow(
      'Payments.pay (module PaymentsModule) has no IdempotencyModule: the imported one comes from another copy',
    );
  });
});

describe('Without options', () => {
  const forRoot = IdempotencyModule.forRoot.bind(IdempotencyModule) as (
    options?: unknown,
  ) => DynamicModule;
  const none: [string, () => DynamicModule][] = [
    ['forRoot()', () => forRoot()],
    ['forRoot({})', () => forRoot({})],
    ['forRoot({ store: undefined })', () => forRoot({ store: undefined })],
    [
      'a factory that returns nothing',
      () => IdempotencyModule.forRootAsync({ useFactory: () => undefined as never }),
    ],
  ];

  it.each(none)('%s: the start error names the missing option and its remedy', async (_, make) => {
    await expect(start(make())).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringMatching(/has no "store".*forRoot\(\{ store: … \}\).*memoryStore\(\)/),
    });
  });
});

/** Records the calls it receives. */
class Reported extends MemoryIdempotencyStore {
  readonly reported: string[] = [];
  override open(observer?: StoreObserver) {
    this.reported.push('open');
    return super.open(observer);
  }
  override begin(command: Begin) {
    this.reported.push('begin');
    return super.begin(command);
  }
  override close(observer?: StoreObserver) {
    this.reported.push('close');
    return super.close(observer);
  }
}

@Injectable()
class ReportedAsClass extends Reported {}

@Injectable()
class Injecting {
  constructor(readonly store: IdempotencyStore) {}
}

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

type Override = (overriding: {
  useValue(value: unknown): ReturnType<typeof Test.createTestingModule>;
  useClass(type: unknown): ReturnType<typeof Test.createTestingModule>;
  useFactory(made: { factory: () => unknown }): ReturnType<typeof Test.createTestingModule>;
}) => ReturnType<typeof Test.createTestingModule>;

async function startOverridden(
  options: IdempotencyModuleOptions,
  override: Override,
  controllers: Type[] = [],
) {
  @Module({
    imports: [IdempotencyModule.forRoot(options)],
    providers: [Injecting],
    controllers,
  })
  class AppModule {}
  const log = new LoggedLines();
  const building = Test.createTestingModule({ imports: [AppModule] }).setLogger(log);
  const module = await override(building.overrideProvider(IdempotencyStore)).compile();
  const app = module.createNestApplication({ logger: log });
  closers.push(() => app.close());
  await app.init();
  const store = app.get(Injecting).store;
  const service = app.get(IdempotencyService, { strict: false });
  return { app, store, service, log };
}

const call = { operation: 'pay', key: 'k', scope: 'alice' };

const WAYS: [string, Override][] = [
  ['useValue', (it) => it.useValue(new Reported())],
  ['useClass', (it) => it.useClass(ReportedAsClass)],
  ['useFactory', (it) => it.useFactory({ factory: () => new Reported() })],
];

describe.each(WAYS)('overrideProvider(IdempotencyStore).%s', (_, override) => {
  it('replaces the given store, which is neither opened nor called', async () => {
    const given = new Reported();
    const { app, store, service } = await startOverridden(
      { store: given, breaker: true },
      override,
    );
    expect(store).toBeInstanceOf(Reported);
    expect(await service.run(call, () => 1)).toBe(1);
    expect(await service.run(call, () => 2)).toBe(1);
    closers.pop();
    await app.close();
    expect((store as Reported).reported).toEqual(['open', 'begin', 'begin', 'close']);
    expect(given.reported).toEqual([]);
  });
});

describe('An overridden store', () => {
  const useMemory: Override = (it) => it.useValue(memoryStore());

  it('prevents connections to the database of the given store', async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closers.push(() => server.close());
    const { port } = server.address() as { port: number };
    const given = [
      redisStore({ url: `redis://127.0.0.1:${port}`, waitReplicas: { count: 1, timeout: 10 } }),
      postgresStore({ url: `postgres://127.0.0.1:${port}/db` }),
    ];
    for (const store of given) {
      const { service, log } = await startOverridden({ store }, useMemory);
      expect(await service.run(call, () => 1)).toBe(1);
      expect(log.own).toEqual([]);
    }
    expect(connections).toBe(0);
  });

  it('does not need a given store', async () => {
    const { service } = await startOverridden({} as IdempotencyModuleOptions, useMemory);
    expect(await service.run(call, () => 1)).toBe(1);
  });

  it('that is not a store stops the start', async () => {
    const starting = startOverridden({ store: memoryStore() }, (it) =>
      it.useValue({ get: () => undefined }),
    );
    await expect(starting).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringContaining('"store"'),
    });
  });

  it('is checked for transactions in place of the given one', async () => {
    const Payments = declared('Payments', [Controller()], {
      pay: [Post(), Idempotent({ transaction: true })],
    });
    class Transactional extends MemoryIdempotencyStore {
      override get transactional() {
        return {} as never;
      }
    }
    const unused = () => Promise.reject(new Error('not asked'));
    const unitOfWork = {
      run: unused,
      isConflict: unused,
      isInterruption: unused,
      isReplyMismatch: unused,
    } as never;
    const given = postgresStore({ url: 'postgres://127.0.0.1:1/db' });
    const rejected = startOverridden({ store: given, unitOfWork }, useMemory, [Payments]);
    await expect(rejected).rejects.toThrow('cannot take part');
    const useTransactional: Override = (it) => it.useValue(new Transactional());
    await expect(
      startOverridden({ store: memoryStore(), unitOfWork }, useTransactional, [Payments]),
    ).resolves.toBeDefined();
  });

  it('is used by the reconciler', async () => {
    class Listless extends MemoryIdempotencyStore {
      override abandoned() {
        return Promise.resolve(undefined as never);
      }
    }
    const useListless: Override = (it) => it.useValue(new Listless());
    const options = { reconcile: true };
    await expect(
      startOverridden({ store: memoryStore(), ...options }, useListless),
    ).rejects.toThrow('has no abandoned()');
    const { app } = await startOverridden({ store: new Listless(), ...options }, useMemory);
    const report = await app.get(IdempotencyReconciler, { strict: false }).reconcile();
    expect(report).toMatchObject({ coverage: 'complete' });
  });
});
