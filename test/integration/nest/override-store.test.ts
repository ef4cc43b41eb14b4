import { Controller, Injectable, Module, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { createServer } from 'node:net';
import { once } from 'node:events';
import {
  Idempotent,
  IdempotencyModule,
  IdempotencyReconciler,
  IdempotencyService,
  IdempotencyStore,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import type { Begin, StoreObserver } from 'nestjs-idempotency/store';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { LoggedLines } from '../../support/nest/logged-lines.js';

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

async function start(
  options: IdempotencyModuleOptions,
  override: Override,
  controllers: (new () => object)[] = [],
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
    const { app, store, service } = await start({ store: given, breaker: true }, override);
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
      redisStore({ url: `redis://127.0.0.1:${port}`, waitReplicas: { count: 1, timeoutMs: 10 } }),
      postgresStore({ url: `postgres://127.0.0.1:${port}/db` }),
    ];
    for (const store of given) {
      const { service, log } = await start({ store }, useMemory);
      expect(await service.run(call, () => 1)).toBe(1);
      expect(log.own).toEqual([]);
    }
    expect(connections).toBe(0);
  });

  it('does not need a given store', async () => {
    const { service } = await start({} as IdempotencyModuleOptions, useMemory);
    expect(await service.run(call, () => 1)).toBe(1);
  });

  it('that is not a store stops the start', async () => {
    const starting = start({ store: memoryStore() }, (it) => it.useValue({ get: () => undefined }));
    await expect(starting).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringContaining('"store"'),
    });
  });

  it('is checked for transactions in place of the given one', async () => {
    @Controller()
    class Payments {
      @Post()
      @Idempotent({ transaction: true })
      pay() {
        return 'paid';
      }
    }
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
    const rejected = start({ store: given, unitOfWork }, useMemory, [Payments]);
    await expect(rejected).rejects.toThrow('cannot take part');
    const useTransactional: Override = (it) => it.useValue(new Transactional());
    await expect(
      start({ store: memoryStore(), unitOfWork }, useTransactional, [Payments]),
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
    await expect(start({ store: memoryStore(), ...options }, useListless)).rejects.toThrow(
      'has no abandoned()',
    );
    const { app } = await start({ store: new Listless(), ...options }, useMemory);
    const report = await app.get(IdempotencyReconciler, { strict: false }).reconcile();
    expect(report).toMatchObject({ coverage: 'complete' });
  });
});
