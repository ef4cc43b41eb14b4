import { Controller, Get, Post, Sse, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import {
  Idempotent,
  IdempotencyModule,
  IdempotencyOptionsError,
  StoreConfigurationError,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { optionAt } from '../../../support/nest/option-at.js';
import { declared } from '../support/declared.js';

/** Starts an application, and closes it when it has started. */
async function start(
  controllers: Type[],
  options: object = {},
  how: 'forRoot' | 'forRootAsync' = 'forRoot',
): Promise<void> {
  const all = { store: memoryStore(), ...options } as IdempotencyModuleOptions;
  const idempotency =
    how === 'forRoot'
      ? IdempotencyModule.forRoot(all)
      : IdempotencyModule.forRootAsync({ useFactory: () => all });
  const module = await Test.createTestingModule({ imports: [idempotency], controllers }).compile();
  const app = module.createNestApplication({ logger: false });
  try {
    await app.init();
  } finally {
    await app.close();
  }
}

async function rejection(starting: Promise<void>): Promise<string> {
  const error: unknown = await starting.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(IdempotencyOptionsError);
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
      ['no store', undefined],
      ['null for a store', null],
      ['a client for a store', { get: () => undefined }],
    ])('%s', async (_, store) => {
      const message = await rejection(start([], { store }, how));
      expect(message).toContain('"store"');
      expect(message).toContain('memoryStore()');
    });

    it.each([
      ['lease.durationMs', 99, '100 to 3600000'],
      ['limits.shutdownTimeoutMs', -1, '0 to 3600000'],
      ['limits.maxWaiters', 1.5, '0 to 1000000'],
    ])('an invalid %s, even when no route is protected', async (option, value, range) => {
      const message = await rejection(start([], optionAt(option, value), how));
      expect(message).toContain(`"${option}"`);
      expect(message).toContain(range);
      expect(message).toContain(String(value));
    });

    it('an unknown option', async () => {
      const message = await rejection(start([Payments], { outcome: { retention: 60 } }, how));
      expect(message).toContain('"outcome.retention"');
      expect(message).toContain('outcome.retentionMs');
    });

    it('one operation name for all routes', async () => {
      expect(await rejection(start([Payments], { operation: 'all' }, how))).toContain(
        '"operation"',
      );
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
  it.each<[string, Type, string]>([
    ['with an invalid option', paying('Bad', { lease: { durationMs: 10 } }), '"lease.durationMs"'],
    [
      'with an invalid option on its class',
      declared('Bad', [Controller(), Idempotent({ http: { replayHeader: 'not a name' } })], {
        pay: [Post()],
      }),
      '"http.replayHeader"',
    ],
    ...['leases', 'store', 'limits'].map((name): [string, Type, string] => [
      `with "${name}", which is not an option of a route`,
      paying('Bad', { [name]: 1 }),
      `"${name}" is not an option of @Idempotent()`,
    ]),
  ])('%s', async (_, type, message) => {
    expect(await rejection(start([type]))).toContain(message);
  });

  it('with options that are valid alone and invalid together', async () => {
    const starting = start([paying('Bad', { lease: { durationMs: 60_000 } })], {
      lease: { maxExecutionMs: 30_000 },
    });
    expect(await rejection(starting)).toContain('"lease.maxExecutionMs"');
  });

  it('when it is an @Sse() route', async () => {
    const type = declared('Stream', [Controller()], { events: [Sse('events'), Idempotent()] });
    const message = await rejection(start([type]));
    expect(message).toContain('Stream.events');
    expect(message).toContain('@Sse()');
  });

  it('when its operation has the name of another one', async () => {
    const message = await rejection(
      start([Payments, paying('Refunds', { operation: 'Payments.pay' })]),
    );
    expect(message).toContain('"Payments.pay"');
    expect(message).toContain('Refunds.pay');
  });

  it('when its class has the name of another one', async () => {
    const namesake = paying('Payments', {}, 'namesake');
    expect(await rejection(start([Payments, namesake]))).toContain('"Payments.pay"');
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
    const message = await rejection(start([Cards, Transfers]));
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
    const message = await rejection(start([Sub]));
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
