import {
  Controller,
  Injectable,
  Module,
  Post,
  UseInterceptors,
  type DynamicModule,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Mutation, Resolver } from '@nestjs/graphql';
import { EventPattern } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Idempotent,
  IdempotencyModule,
  IdempotencyOptionsError,
  IdempotencyReconciler,
  IdempotencyService,
  jsonCodec,
} from 'nestjs-idempotency';
import { payloadKey } from 'nestjs-idempotency/message';
import { memoryStore } from 'nestjs-idempotency/memory';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { idempotentFetch } from 'nestjs-idempotency/client';
import { IdempotencyInterceptor } from '../../../support/internals/nest.js';
import { declared } from '../support/declared.js';
import { LoggedLines } from '../../../support/nest/logged-lines.js';

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
async function start(
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

async function rejection(action: () => unknown): Promise<string> {
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

const byArguments = { key: () => 'k' };

describe.each(Object.entries(places))('a protected %s stops the start', (name, { of, type }) => {
  const idempotent = (options: object = {}) =>
    Idempotent({ ...(name === 'service' && byArguments), ...options });

  it('not when it is used correctly', async () => {
    await expect(start(type(idempotent()), of, forRoot())).resolves.toBeUndefined();
  });

  it('without IdempotencyModule, and names where to import it', async () => {
    const message = await rejection(() => start(type(idempotent()), of, undefined));
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
    const message = await rejection(() => start(type(idempotent()), of, local));
    expect(message).toContain('@Idempotent() on Orders.create (module OrdersModule) has no');
    expect(message).toContain('isGlobal: false, where OrdersModule does not see it');
  });

  it('with a misspelt option, and suggests the right one', async () => {
    const message = await rejection(() =>
      start(type(idempotent({ lease: { durationMS: 1 } })), of, forRoot()),
    );
    expect(message).toMatch(
      /^@Idempotent\(\) on Orders\.create \(module OrdersModule\): "lease\.durationMS"/,
    );
    expect(message).toMatch(/ Did you mean "lease\.durationMs"\?$/);
  });

  it('with an option of the module, and names its place', async () => {
    const message = await rejection(() =>
      start(type(idempotent({ limits: { maxWaiters: 1 } })), of, forRoot()),
    );
    expect(message).toContain('Orders.create (module OrdersModule)');
    expect(message).toMatch(
      /It is an option of the module: IdempotencyModule\.forRoot\(\{ … \}\)\.$/,
    );
  });

  it('with a value out of range', async () => {
    const message = await rejection(() =>
      start(type(idempotent({ lease: { durationMs: 1 } })), of, forRoot()),
    );
    expect(message).toBe(
      '@Idempotent() on Orders.create (module OrdersModule): The option "lease.durationMs" must be an integer from 100 to 3600000, but it is 1.',
    );
  });

  it('with the interceptor and without @Idempotent()', async () => {
    const bound = type(UseInterceptors(IdempotencyInterceptor));
    const message = await rejection(() => start(bound, of, forRoot()));
    expect(message).toContain('IdempotencyInterceptor is bound to Orders.create by itself');
    expect(message).toContain('put @Idempotent() on each handler');
  });

  it('with the interceptor on its class', async () => {
    const bound = type(idempotent());
    UseInterceptors(IdempotencyInterceptor)(bound);
    const message = await rejection(() => start(bound, of, forRoot()));
    expect(message).toContain('IdempotencyInterceptor is bound to Orders by itself');
  });
});

describe('IdempotencyInterceptor for all handlers stops the start', () => {
  const { of, type } = places.route!;

  it('by APP_INTERCEPTOR', async () => {
    const providers = [{ provide: APP_INTERCEPTOR, useClass: IdempotencyInterceptor }];
    const message = await rejection(() => start(type(), of, forRoot(), providers));
    expect(message).toContain('bound to the whole application');
  });

  it('by APP_INTERCEPTOR without IdempotencyModule', async () => {
    const providers = [{ provide: APP_INTERCEPTOR, useClass: IdempotencyInterceptor }];
    const message = await rejection(() => start(type(), of, undefined, providers));
    expect(message).toContain('has no IdempotencyModule: import IdempotencyModule.forRoot');
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
    expect(await rejection(() => app.init())).toContain('bound to the whole application');
  });
});

it('an error of the options factory is reported, not a missing module', async () => {
  const failing = IdempotencyModule.forRootAsync({
    useFactory: () => Promise.reject(new Error('no configuration')),
  });
  const { of, type } = places.route!;
  await expect(start(type(Idempotent()), of, failing)).rejects.toThrow('no configuration');
});

describe('an unknown option', () => {
  const url = 'redis://127.0.0.1:1';
  const postgres = 'postgres://127.0.0.1:1/db';
  const as = (options: object) => options as never;

  it.each([
    [{ outcomes: 1 }, 'outcomes', 'outcome'],
    [{ rentionMs: 1 }, 'rentionMs', 'outcome.retentionMs'],
    [{ ttl: 1 }, 'ttl', 'outcome.retentionMs'],
    [{ headerName: 1 }, 'headerName', 'key'],
    [{ lockTtl: 1 }, 'lockTtl', 'lease.durationMs'],
    [{ adapter: {} }, 'adapter', 'store'],
    [{ reconcile: { interval: 1 } }, 'reconcile.interval', 'reconcile.intervalMs'],
    [{ breaker: { volumeTreshold: 1 } }, 'breaker.volumeTreshold', 'breaker.volumeThreshold'],
  ])('of the module is rejected with a suggestion: %j', async (options, name, meant) => {
    const message = await rejection(() =>
      start(places.service!.type(), 'providers', forRoot(options)),
    );
    expect(message).toContain(`"${name}" is not an option of IdempotencyModule.forRoot().`);
    expect(message).toMatch(new RegExp(`Did you mean "${meant}"\\?$`));
  });

  it.each([
    [{ url }, 'store'],
    [{ keyPrefix: 'x' }, 'store'],
    [{ operation: 'x' }, '@Idempotent({ operation: … })'],
    [{ 'lease.durationMs': 1 }, 'Write lease: { durationMs: … }.'],
  ])('of the module is rejected with its right place: %j', async (options, where) => {
    expect(
      await rejection(() => start(places.service!.type(), 'providers', forRoot(options))),
    ).toContain(where);
  });

  it.each([
    ['redisStore', () => redisStore(as({ url, keyprefix: 'x' })), 'keyPrefix'],
    ['redisStore', () => redisStore(as({ urll: url })), 'url'],
    ['waitReplicas', () => redisStore(as({ url, waitReplicas: { cuont: 1 } })), 'count'],
    ['postgresStore', () => postgresStore(as({ url: postgres, tabel: 'x' })), 'table'],
    ['postgresStore', () => postgresStore(as({ pool: {} })), 'client'],
    [
      'postgresStore',
      () => postgresStore(as({ url: postgres, deleteExpired: { batchsize: 1 } })),
      'deleteExpired.batchSize',
    ],
    ['memoryStore', () => memoryStore(as({ maxRecord: 1 })), 'maxRecords'],
    ['jsonCodec()', () => jsonCodec(as({ date: 'text' })), 'dates'],
    ['payloadKey()', () => payloadKey(as({ includes: ['id'] })), 'include'],
  ])('of %s is rejected with a suggestion', async (what, make, meant) => {
    const message = await rejection(make);
    expect(message).toMatch(new RegExp(`Did you mean "${meant}"\\?$`));
    expect(message).toContain(`is not an option of ${what}.`);
  });

  it('of redisStore is rejected as one of ioredis', async () => {
    const message = await rejection(() => redisStore(as({ host: 'localhost' })));
    expect(message).toContain('redisStore({ connection: { … } })');
  });

  it('of idempotentFetch is rejected with a suggestion', async () => {
    const options = as({ deadline: 1 });
    await expect(idempotentFetch('http://127.0.0.1:1', {}, options)).rejects.toThrow(
      '"deadline" is not an option of idempotentFetch. Did you mean "deadlineMs"?',
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
      [{ lease: { durationMS: 1 } }, 'Did you mean "lease.durationMs"?'],
      [{ limits: { maxWaiters: 1 } }, 'It is an option of the module'],
      [{ caller: {} }, 'Give the caller by "scope".'],
      [{ http: {} }, 'It is an option of request and message handlers.'],
      [
        { lease: { durationMs: 1 } },
        'IdempotencyService.run() of "invoice.send": The option "lease.durationMs" must',
      ],
      [{ outcome: 1 }, 'IdempotencyService.run() of "invoice.send": The option "outcome" must'],
    ])('of IdempotencyService.run(), %j', async (options, remedy) => {
      const service = (await nest()).get(IdempotencyService);
      const message = await rejection(() => service.run(as({ ...call, ...options }), () => 1));
      expect(message).toContain(remedy);
      expect(message).not.toContain('secret');
    });

    it.each([
      [{ durationMS: 1 }, 'Did you mean "lease.durationMs"?'],
      [
        { durationMs: 1 },
        'IdempotencyReconciler.register() of "invoice.send": The option "lease.durationMs"',
      ],
    ])('of IdempotencyReconciler.register(), lease: %j', async (options, remedy) => {
      const reconciler = (await nest()).get(IdempotencyReconciler);
      const recover = { lease: { onTakeover: () => 'run' as const, ...options } };
      const message = await rejection(() => {
        reconciler.register('invoice.send', as(recover));
      });
      expect(message).toContain(remedy);
    });
  });
});
