import { Controller, Get, Post, Sse, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
import { EMPTY } from 'rxjs';
import {
  Idempotent,
  IdempotencyModule,
  IdempotencyOptionsError,
  StoreConfigurationError,
  type IdempotencyModuleOptions,
} from 'nestjs-idempotency';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';

/** Starts an application, and ends it where it did start. */
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

async function refusal(starting: Promise<void>): Promise<string> {
  const error: unknown = await starting.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(IdempotencyOptionsError);
  return (error as Error).message;
}

@Controller('payments')
class Payments {
  @Post()
  @Idempotent()
  pay() {
    return 'paid';
  }

  @Get()
  list() {
    return [];
  }
}

describe('an application', () => {
  it('starts with what is right', async () => {
    await expect(start([Payments])).resolves.toBeUndefined();
  });

  describe.each(['forRoot', 'forRootAsync'] as const)('does not start with %s and', (how) => {
    it.each([
      ['no store', undefined],
      ['null for a store', null],
      ['a client for a store', { get: () => undefined }],
    ])('%s', async (_, store) => {
      const message = await refusal(start([], { store }, how));
      expect(message).toContain('"store"');
      expect(message).toContain('memoryStore()');
    });

    it.each([
      ['leaseMs', 99, '100 to 3600000'],
      ['shutdownTimeoutMs', -1, '0 to 3600000'],
      ['maxWaiters', 1.5, '0 to 1000000'],
    ])('a bad %s, even where no route is protected', async (option, value, range) => {
      const message = await refusal(start([], { [option]: value }, how));
      expect(message).toContain(`"${option}"`);
      expect(message).toContain(range);
      expect(message).toContain(String(value));
    });

    it('a name that is no option', async () => {
      const message = await refusal(start([Payments], { retentionSeconds: 60 }, how));
      expect(message).toContain('"retentionSeconds"');
      expect(message).toContain('retentionMs');
    });

    it('an operation name for all', async () => {
      expect(await refusal(start([Payments], { operation: 'all' }, how))).toContain('"operation"');
    });
  });

  it('does not start when its store says that it can never work', async () => {
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
  it('with a bad option', async () => {
    @Controller()
    class Bad {
      @Post()
      @Idempotent({ leaseMs: 10 })
      pay() {
        return 'paid';
      }
    }
    expect(await refusal(start([Bad]))).toContain('"leaseMs"');
  });

  it('with a bad option on its class', async () => {
    @Controller()
    @Idempotent({ replayHeader: 'not a name' })
    class Bad {
      @Post()
      pay() {
        return 'paid';
      }
    }
    expect(await refusal(start([Bad]))).toContain('"replayHeader"');
  });

  it('with a name that is no option, or one of the module only', async () => {
    for (const name of ['lease', 'store', 'maxWaiters']) {
      @Controller()
      class Bad {
        @Post()
        @Idempotent({ [name]: 1 })
        pay() {
          return 'paid';
        }
      }
      expect(await refusal(start([Bad]))).toContain(`"${name}" is not an option of @Idempotent()`);
    }
  });

  it('with options that are right by themselves and wrong together', async () => {
    @Controller()
    class Bad {
      @Post()
      @Idempotent({ leaseMs: 60_000 })
      pay() {
        return 'paid';
      }
    }
    expect(await refusal(start([Bad], { maxExecutionMs: 30_000 }))).toContain('"maxExecutionMs"');
  });

  it('when it is an @Sse() route', async () => {
    @Controller()
    class Stream {
      @Sse('events')
      @Idempotent()
      events() {
        return EMPTY;
      }
    }
    const message = await refusal(start([Stream]));
    expect(message).toContain('Stream.events');
    expect(message).toContain('@Sse()');
  });

  it('when its operation has the name of another one', async () => {
    @Controller('refunds')
    class Refunds {
      @Post()
      @Idempotent({ operation: 'Payments.pay' })
      refund() {
        return 'refunded';
      }
    }
    const message = await refusal(start([Payments, Refunds]));
    expect(message).toContain('"Payments.pay"');
    expect(message).toContain('Refunds.refund');
  });

  it('when its class has the name of another one', async () => {
    const Namesake = (() => {
      @Controller('namesake')
      class Payments {
        @Post()
        @Idempotent()
        pay() {
          return 'paid';
        }
      }
      return Payments;
    })();
    expect(await refusal(start([Payments, Namesake]))).toContain('"Payments.pay"');
  });

  it('when two classes inherit it under one name', async () => {
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
    const message = await refusal(start([Cards, Transfers]));
    expect(message).toContain('Cards.pay');
    expect(message).toContain('Transfers.pay');
  });

  it('when it belongs to a subclass of a decorated controller, and nothing decorates it', async () => {
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
    const message = await refusal(start([Sub]));
    expect(message).toContain('Sub.own');
    expect(message).toContain('Put @Idempotent() on Sub');
  });
});

describe('@Idempotent() is refused where it stands', () => {
  const decorate = (descriptor: PropertyDescriptor | undefined) => () =>
    Idempotent()(Payments.prototype, 'total', descriptor!);

  it.each([
    ['a property', undefined],
    ['a getter', { get: () => 1 }],
    ['a constant', { value: 1 }],
  ])('on %s', (_, descriptor) => {
    expect(decorate(descriptor)).toThrow(IdempotencyOptionsError);
    expect(decorate(descriptor)).toThrow('total');
  });
});
