import { Controller, Injectable, Post, type Type } from '@nestjs/common';
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { Mutation, Resolver } from '@nestjs/graphql';
import { EventPattern } from '@nestjs/microservices';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { describe, expect, it, jest } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { afterTest } from '../../support/jest/after-test.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { callingApp, rejection, type CallingApp } from '../../support/nest/calling-app.js';
import { copyMetadata, Wrapping } from './support/wrapping.js';

const stripping = Wrapping((run) => run() as unknown, 'lost');
const copying = Wrapping((run) => run() as unknown);

async function initialised(controller: Type, providers: Type[] = []): Promise<CallingApp> {
  const app = await callingApp({ controllers: [controller], providers });
  afterTest(() => app.nest.close());
  return app;
}

async function listening(controller: Type): Promise<TestApp> {
  const app = await startApp({
    platform: 'express',
    store: memoryStore(),
    controllers: [controller],
  });
  afterTest(() => app.close());
  return app;
}

describe('the start fails where the metadata of @Idempotent() does not reach Nest:', () => {
  it.each<[string, () => Type]>([
    [
      'a route',
      () => {
        @Controller()
        class Payments {
          @Post()
          @stripping
          @Idempotent()
          pay() {
            return 'paid';
          }
        }
        return Payments;
      },
    ],
    [
      'a route whose own metadata is lost',
      () => {
        @Controller()
        class Payments {
          @stripping
          @Post()
          @Idempotent()
          pay() {
            return 'paid';
          }
        }
        return Payments;
      },
    ],
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
    [
      'an event',
      () => {
        @Controller()
        class Payments {
          @EventPattern('paid')
          @stripping
          @Idempotent({ message: { consumer: 'payments' } })
          pay(_event: unknown) {
            return 'paid';
          }
        }
        return Payments;
      },
    ],
    [
      'a mutation',
      () => {
        @Resolver()
        class Payments {
          @Mutation(() => Boolean)
          @stripping
          @Idempotent()
          pay() {
            return 'paid';
          }
        }
        return Payments;
      },
    ],
    [
      'a message of a gateway',
      () => {
        @WebSocketGateway()
        class Payments {
          @SubscribeMessage('pay')
          @stripping
          @Idempotent()
          pay() {
            return 'paid';
          }
        }
        return Payments;
      },
    ],
    [
      'replaced interceptors',
      () => {
        const Replacing: MethodDecorator = (_, __, { value }: PropertyDescriptor) =>
          Reflect.defineMetadata(INTERCEPTORS_METADATA, [], value as object);
        @Controller()
        class Payments {
          @Post()
          @Replacing
          @Idempotent()
          pay() {
            return 'paid';
          }
        }
        return Payments;
      },
    ],
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
    const app = await listening(Payments);
    const scenario = app.scenario();
    const first = await scenario.post('/');
    expectReplay(await scenario.post('/'), first);
    expect(scenario.executions).toBe(1);
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
    const app = await listening(Payments);
    const scenario = app.scenario();
    const first = await scenario.post('/');
    expectReplay(await scenario.post('/'), first);
    expect(scenario.executions).toBe(1);
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
