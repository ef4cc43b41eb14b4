import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Injectable, Post, type Provider, type Type } from '@nestjs/common';
import { ExternalContextCreator } from '@nestjs/core';
import { CommandBus, CommandHandler, CqrsModule, type ICommandHandler } from '@nestjs/cqrs';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { currentIdempotencyContext, Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { startApp } from '../../support/http/start-app.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';

let app: CallingApp | undefined;
afterEach(() => app?.nest.close());

async function started<Instance>(
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
    await started(Listener, [EventEmitterModule.forRoot()]);
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
    await started(ShipHandler, [CqrsModule.forRoot()]);
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
    const payments = await started(Payments);
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
    const consume = callFromQueue(await started(Consumer), 'consume');
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
    const consumer = await started(Consumer);
    await expect(callFromQueue(consumer, 'consume')()).rejects.toThrow(
      '@Idempotent() on Consumer.consume does not support requests of type "queue"',
    );
    expect(consumer.consumed).toBe(0);
  });
});
