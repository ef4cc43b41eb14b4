import { randomBytes } from 'node:crypto';
import {
  type CallHandler,
  ClassSerializerInterceptor,
  Controller,
  type DynamicModule,
  type ExecutionContext,
  type INestApplication,
  type INestApplicationContext,
  type INestMicroservice,
  Injectable,
  Module,
  type NestInterceptor,
  Scope,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import {
  type ClientProxy,
  ClientProxyFactory,
  Ctx,
  EventPattern,
  type IncomingRequest,
  MessagePattern,
  type MicroserviceOptions,
  Payload,
  RmqContext,
  type TcpOptions,
  Transport,
} from '@nestjs/microservices';
import { APP_INTERCEPTOR, NestFactory, Reflector } from '@nestjs/core';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  IdempotencyEvents,
  IdempotencyModule,
  type IdempotencyOptions,
  Idempotent,
  type Recovery,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { messageHeader, messageId, payloadField, payloadKey } from 'nestjs-idempotency/message';
import { redisStore } from 'nestjs-idempotency/redis';
import type { BlobStore } from 'nestjs-idempotency/store';
import { from, lastValueFrom, map, merge, type Observable, take } from 'rxjs';
import { Exclude } from 'class-transformer';
import { folderOfBlobs } from '../../support/stores/folder-of-blobs.js';
import { until } from '../../support/waiting/until.js';
import { freePort } from '../../support/servers/free-port.js';
import { Gate } from '../../support/waiting/gate.js';
import { Tally } from '../../support/waiting/tally.js';
import { useRedis, useRedisClient } from '../../support/redis/use-redis.js';
import { startConsumer } from './support/start-consumer.js';
import { useBroker } from './support/use-broker.js';
import { emitOrder, Noting } from './support/orders.js';

let app: INestMicroservice | undefined;
let client: ClientProxy | undefined;
afterEach(async () => {
  await client?.close();
  await app?.close();
});

async function start(
  reply: () => unknown,
  options: IdempotencyOptions = {},
  more: Partial<NonNullable<TcpOptions['options']>> & {
    filter?: Noting;
    blobs?: BlobStore;
  } = {},
) {
  const { filter, blobs, ...server } = more;
  let runs = 0;
  @Controller()
  class Orders {
    @Idempotent({
      key: () => 'k1',
      ...options,
      message: { consumer: 'billing', ...options.message },
    })
    @MessagePattern('order.price')
    price(): unknown {
      runs += 1;
      return reply();
    }

    @Idempotent({ ...options, message: { consumer: 'billing', ...options.message } })
    @EventPattern(['order.placed'])
    place(): unknown {
      runs += 1;
      return reply();
    }
  }
  const port = await freePort();
  const place = { host: '127.0.0.1', port };
  app = await startConsumer(
    { transport: Transport.TCP, options: { ...place, ...server } },
    {
      controllers: [Orders],
      options: { store: memoryStore(), ...(blobs && { blobs }) },
      configure: (nest) => filter && nest.useGlobalFilters(filter),
    },
  );
  const own = ClientProxyFactory.create({ transport: Transport.TCP, options: place });
  client = own;
  return {
    ask: () => lastValueFrom(own.send<unknown>('order.price', { id: 1 })),
    emit: () => lastValueFrom(own.emit('order.placed', { id: 1 }), { defaultValue: undefined }),
    runs: () => runs,
  };
}

describe('a reply', () => {
  it('with a Date has its string, as on the wire, in the first reply and in the replay', async () => {
    const at = new Date('2026-01-02T03:04:05.678Z');
    const { ask, runs } = await start(() => ({ at, all: [at] }));
    const text = '2026-01-02T03:04:05.678Z';
    expect(await ask()).toEqual({ at: text, all: [text] });
    expect(await ask()).toEqual({ at: text, all: [text] });
    expect(runs()).toBe(1);
  });

  it('with more than outcome.maxBytes is in the blob store, and replayed from there', async () => {
    const blobs = await folderOfBlobs();
    const note = randomBytes(100_000).toString('hex');
    const { ask, runs } = await start(
      () => ({ note, run: runs() }),
      { outcome: { maxBytes: 50_000 } },
      { blobs: blobs.store },
    );
    expect(await ask()).toEqual({ note, run: 1 });
    expect(await blobs.names()).toHaveLength(1);
    expect(await ask()).toEqual({ note, run: 1 });
    expect(runs()).toBe(1);
    await blobs.clear();
    await expect(ask()).rejects.toMatchObject({ code: 'idempotency_response_not_kept' });
    expect(runs()).toBe(1);
  });

  it('with a BigInt, which would be lost, is rejected with a stable code, and the operation does not run again', async () => {
    const { ask, runs } = await start(() => ({ total: 1n }));
    await expect(ask()).rejects.toEqual({
      status: 'error',
      code: 'idempotency_value_not_storable',
      message: expect.any(String),
    });
    await expect(ask()).rejects.toMatchObject({ code: 'idempotency_response_not_kept' });
    expect(runs()).toBe(1);
  });
});

/** Revives a string, as a custom deserializer may do. */
const reviving = {
  deserialize: (value: IncomingRequest) => ({ ...value, data: { id: 1n } }),
};

describe('a message that cannot be compared', () => {
  it('is rejected with the name of its handler and the option that excludes a member', async () => {
    const { ask, runs } = await start(() => 'done', {}, { deserializer: reviving });
    await expect(ask()).rejects.toEqual({
      status: 'error',
      code: 'idempotency_content_invalid',
      message: expect.stringMatching(/^A message for Orders\.price .*"fingerprint", \{ exclude:/),
    });
    expect(runs()).toBe(0);
  });

  it.each<[string, IdempotencyOptions]>([
    ['without the member that cannot be compared', { fingerprint: { exclude: ['id'] } }],
    ['not at all', { fingerprint: false }],
  ])('is handled once when it is compared %s', async (_, options) => {
    const { ask, runs } = await start(() => 'done', options, { deserializer: reviving });
    expect(await ask()).toBe('done');
    expect(await ask()).toBe('done');
    expect(runs()).toBe(1);
  });
});

describe('an event without a key', () => {
  it('is rejected with a remedy, in a message that does not call it a request', async () => {
    const filter = new Noting();
    const { emit, runs } = await start(() => undefined, {}, { filter });
    await emit();
    await until(() => filter.errors.length === 1);
    const [error] = filter.errors as [Error];
    expect(error).toMatchObject({ code: 'idempotency_key_missing' });
    expect(error.message).toMatch(/Orders\.place.*messageId.*payloadKey.*required/s);
    expect(error.message).not.toMatch(/request/i);
    expect(runs()).toBe(0);
  });
});

class Account {
  readonly name = 'alice';
  @Exclude() readonly secret = 'hidden';
}

const protect = () =>
  Idempotent({ message: { consumer: 'accounts' }, key: () => 'k1', fingerprint: false as const });

@Injectable()
class OwnSerializer extends ClassSerializerInterceptor {}

@Injectable({ scope: Scope.REQUEST })
class RequestsSerializer extends ClassSerializerInterceptor {}

@Controller()
@UseInterceptors(ClassSerializerInterceptor)
class OutsideByClass {
  @protect()
  @MessagePattern('account')
  get() {
    return new Account();
  }
}

@Controller()
class OutsideByMethod {
  @protect()
  @UseInterceptors(OwnSerializer)
  @MessagePattern('account')
  get() {
    return new Account();
  }
}

@Controller()
class Plain {
  @protect()
  @MessagePattern('account')
  get() {
    return new Account();
  }
}

@Controller()
@UseInterceptors(ClassSerializerInterceptor)
class Inside {
  @UseInterceptors(ClassSerializerInterceptor)
  @protect()
  @MessagePattern('account')
  get() {
    return new Account();
  }

  @protect()
  @EventPattern(['account.closed'])
  closed() {
    return new Account();
  }
}

@Module({})
class HybridModule {}

const REJECTED = {
  code: 'idempotency_options_invalid',
  message: expect.stringMatching(/@Exclude\(\) .* above @Idempotent\(\)/),
};

const serializerOf = (own: INestApplicationContext) =>
  new ClassSerializerInterceptor(own.get(Reflector));

describe('a serializer by class', () => {
  let app: INestMicroservice | undefined;
  afterEach(() => app?.close());

  const start = async (
    controller: Type,
    providers: object[] = [],
    configure?: (own: INestMicroservice) => unknown,
  ) => {
    app = undefined;
    const port = await freePort();
    const options = { host: '127.0.0.1', port };
    app = await startConsumer(
      { transport: Transport.TCP, options },
      {
        controllers: [controller],
        providers: providers as Type[],
        options: { store: memoryStore() },
        ...(configure !== undefined && { configure }),
      },
    );
    return ClientProxyFactory.create({ transport: Transport.TCP, options });
  };

  it.each<[string, Type, object[]]>([
    ['on the class', OutsideByClass, []],
    ['below @Idempotent() on the method', OutsideByMethod, []],
    ['for the application', Plain, [{ provide: APP_INTERCEPTOR, useClass: OwnSerializer }]],
    ['for each request', Plain, [{ provide: APP_INTERCEPTOR, useClass: RequestsSerializer }]],
  ])('outside @Idempotent(), %s, prevents the start', async (_, controller, providers) => {
    await expect(start(controller, providers)).rejects.toMatchObject(REJECTED);
  });

  it('outside @Idempotent(), for the microservice by useGlobalInterceptors(), prevents the start', async () => {
    const started = start(Plain, [], (own) => own.useGlobalInterceptors(serializerOf(own)));
    await expect(started).rejects.toMatchObject(REJECTED);
  });

  it('inside @Idempotent() excludes its members, from the first reply and from the replay', async () => {
    const client = await start(Inside);
    const ask = () => lastValueFrom(client.send('account', {}));
    expect(await ask()).toEqual({ name: 'alice' });
    expect(await ask()).toEqual({ name: 'alice' });
    await client.close();
  });
});

describe('a serializer by class of a hybrid application, which its microservices may inherit', () => {
  const startHybrid = async (
    controller: Type,
    providers: Type[],
    configure: (own: INestApplication) => unknown,
  ) => {
    const module: DynamicModule = {
      module: HybridModule,
      imports: [IdempotencyModule.forRoot({ store: memoryStore() })],
      controllers: [controller],
      providers,
    };
    const hybrid = await NestFactory.create(module, { logger: false, abortOnError: false });
    try {
      configure(hybrid);
      const options = { host: '127.0.0.1', port: await freePort() };
      const transport = { transport: Transport.TCP as const, options };
      hybrid.connectMicroservice<MicroserviceOptions>(transport, { inheritAppConfig: true });
      await hybrid.startAllMicroservices();
      const client = ClientProxyFactory.create(transport);
      try {
        return await lastValueFrom(client.send('account', {}));
      } finally {
        await client.close();
      }
    } finally {
      await hybrid.close();
    }
  };

  const appInterceptor = { provide: APP_INTERCEPTOR, useClass: OwnSerializer } as unknown as Type;

  it.each<[string, Type[], (own: INestApplication) => unknown]>([
    ['as a provider', [appInterceptor], () => undefined],
    ['by useGlobalInterceptors()', [], (own) => own.useGlobalInterceptors(serializerOf(own))],
  ])('prevents the start, given %s', async (_, providers, configure) => {
    await expect(startHybrid(Plain, providers, configure)).rejects.toMatchObject(REJECTED);
  });

  it('excludes its members when it is on the method too', async () => {
    const configure = (own: INestApplication) => own.useGlobalInterceptors(serializerOf(own));
    expect(await startHybrid(Inside, [], configure)).toEqual({ name: 'alice' });
  });
});

const LEASE_MS = 60_000;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** An interceptor inside `@Idempotent()`; `isFirst`: around the first call of the handler. */
function inside(
  around: (next: CallHandler, isFirst: boolean) => Observable<unknown>,
): NestInterceptor {
  let calls = 0;
  return { intercept: (_, next) => around(next, (calls += 1) === 1) };
}

/** A consumer over TCP, in a process of its own as far as the library can see. */
async function startPrices(controller: Type, store = memoryStore()) {
  const options = {
    transport: Transport.TCP,
    options: { host: '127.0.0.1', port: await freePort() },
  } as const;
  const app: INestMicroservice = await startConsumer(options, {
    controllers: [controller],
    options: { store, limits: { shutdownTimeout: 0 } },
  });
  const client = ClientProxyFactory.create(options);
  await client.connect();
  closers.push(
    () => app.close(),
    () => client.close(),
  );
  const ask = (id: string) => {
    const asked = lastValueFrom(client.send<unknown>('price.set', { id }));
    // A failed test leaves it behind.
    asked.catch(() => undefined);
    return asked;
  };
  return { app, ask };
}

describe('an inner interceptor that responds in place of a handler that is still running', () => {
  async function givenUp(end: () => unknown) {
    const timeout = Gate.closed();
    const gate = Gate.closed();
    const started = new Tally();
    const givesUpOnce = inside((next, isFirst) =>
      isFirst
        ? merge(next.handle(), from(timeout.pass()).pipe(map(() => 'fallback'))).pipe(take(1))
        : next.handle(),
    );
    @Controller()
    class Prices {
      @UseInterceptors(givesUpOnce)
      @Idempotent({ key: payloadField('id'), message: { consumer: 'prices' } })
      @MessagePattern('price.set')
      async set() {
        const run = started.add();
        await gate.pass();
        return run === 1 ? end() : `run ${run}`;
      }
    }
    const { app, ask } = await startPrices(Prices);
    const completed: boolean[] = [];
    app.get(IdempotencyEvents).subscribe((event) => {
      if (event.type === 'completed') completed.push(event.late);
    });
    const first = ask('a');
    await started.reached(1);
    timeout.open();
    expect(await first).toBe('fallback');
    expect(completed).toEqual([]);
    // It waits for the handler.
    const second = ask('a');
    gate.open();
    return { ask, started, second };
  }

  it('does not have its response stored as that of a handler that succeeds', async () => {
    const { ask, started, second } = await givenUp(() => 'run 1');
    const notKept = { code: 'idempotency_response_not_kept' };
    await expect(second).rejects.toMatchObject(notKept);
    await expect(ask('a')).rejects.toMatchObject(notKept);
    expect(started.count).toBe(1);
  });

  it('frees the key of a handler that fails', async () => {
    const { ask, started, second } = await givenUp(() => {
      throw new Error('planned');
    });
    expect(await second).toBe('run 2');
    expect(await ask('a')).toBe('run 2');
    expect(started.count).toBe(2);
  });
});

describe('"lease.onTakeover" of a message handler', () => {
  it('is called after the pipes, and inner interceptors get what it found', async () => {
    let now = Date.UTC(2026, 0, 1);
    const store = memoryStore({ now: () => now });
    const gate = Gate.closed();
    const started = new Tally();
    const steps: string[] = [];
    const find = (): Recovery => {
      steps.push('looked up');
      return { value: 'found' };
    };
    const pipe = {
      transform: (order: { id: string }) => {
        steps.push('piped');
        return order;
      },
    };
    const wrapping = inside((next) => next.handle().pipe(map((value) => ({ wrapped: value }))));
    @Controller()
    class Prices {
      @UseInterceptors(wrapping)
      @Idempotent({
        key: payloadField('id'),
        message: { consumer: 'prices' },
        lease: { duration: LEASE_MS, onTakeover: find },
      })
      @MessagePattern('price.set')
      async set(@Payload(pipe) _order: object) {
        started.add();
        await gate.pass();
        return 'run';
      }
    }
    const owner = await startPrices(Prices, store);
    const { ask } = await startPrices(Prices, store);
    const late = owner.ask('a');
    await started.reached(1);
    now += LEASE_MS;
    steps.length = 0;
    expect(await ask('a')).toEqual({ wrapped: 'found' });
    expect(steps).toEqual(['piped', 'looked up']);
    expect(await ask('a')).toEqual({ wrapped: 'found' });
    expect(steps).toEqual(['piped', 'looked up']);
    expect(started.count).toBe(1);
    gate.open();
    expect(await late).toEqual({ wrapped: 'found' });
  });
});

const { consumers, openQueue, openLimitedQueue } = useBroker();

/** One handler of two events, and the patterns of the events that it has handled. */
function handlerOfBoth(options: IdempotencyOptions): { controller: Type; handled: string[] } {
  const handled: string[] = [];
  @Controller()
  class Orders {
    @Idempotent({
      ...options,
      message: { consumer: 'billing', onFailure: 'dead-letter', ...options.message },
    })
    @EventPattern(['order.placed', 'order.cancelled'])
    follow(@Ctx() context: RmqContext): void {
      handled.push(context.getPattern());
    }
  }
  return { controller: Orders, handled };
}

const ORDER = { order: { id: 1 }, sentAt: 'noon' };

describe('another event with the same payload', () => {
  it.each<[string, IdempotencyOptions]>([
    ['the whole payload', {}],
    ['a part of the payload', { fingerprint: { exclude: ['sentAt'] } }],
    ['the bytes of the payload', { fingerprint: 'bytes' }],
  ])(
    'under the same key is dead-lettered as a mismatch, and not treated as a duplicate, when %s is compared',
    async (_, options) => {
      const { queue, deadLettered } = await openLimitedQueue();
      const { controller, handled } = handlerOfBoth({ key: payloadField('order.id'), ...options });
      const { events } = await consumers.start(queue, controller, { store: memoryStore() });
      await queue.emit('order.placed', ORDER);
      await queue.emit('order.placed', ORDER);
      await queue.emit('order.cancelled', ORDER);
      await deadLettered.holds(1);
      await queue.isEmpty();
      expect(handled).toEqual(['order.placed']);
      expect(events).toContainEqual(
        expect.objectContaining({ type: 'rejected', reason: 'mismatch' }),
      );
      expect(events.filter(({ type }) => type === 'replayed')).toHaveLength(1);
    },
  );
});

/** Memory of an event's record, which does not store the handler's value. */
const RECORD_BYTES_AT_MOST = 232;

const redis = useRedis();
const monitor = useRedisClient(redis);

afterEach(() => void jest.restoreAllMocks());

describe('an event', () => {
  it('takes two commands, each duplicate one more, and stores no value', async () => {
    const queue = await openQueue();
    @Controller()
    class Orders {
      @Idempotent({ message: { consumer: 'billing' } })
      @EventPattern(['order.placed'])
      place() {
        return { receipt: 'x'.repeat(10_000) };
      }
    }
    const { events } = await consumers.start(queue, Orders, {
      store: redisStore({ url: redis.url, push: false }),
    });
    const scripts = async () => {
      const stats = await monitor.info('commandstats');
      const [, calls = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(stats) ?? [];
      return Number(calls);
    };
    // Loads the scripts into the server.
    await emitOrder(queue, 0);
    await until(() => events.some(({ type }) => type === 'completed'));
    const before = await scripts();
    await emitOrder(queue, 1);
    await until(() => events.filter(({ type }) => type === 'completed').length === 2);
    expect((await scripts()) - before).toBe(2);
    await emitOrder(queue, 1);
    await until(() => events.some(({ type }) => type === 'replayed'));
    expect((await scripts()) - before).toBe(3);
    for (const key of await monitor.keys('idem:*')) {
      expect(await monitor.memory('USAGE', key)).toBeLessThanOrEqual(RECORD_BYTES_AT_MOST);
    }
  });

  it('has its context read once, also with a key that is in none of three places', async () => {
    const reads = jest.spyOn(RmqContext.prototype, 'getChannelRef');
    const queue = await openQueue();
    const key = (context: ExecutionContext) =>
      messageHeader('order')(context) ?? messageId()(context) ?? payloadKey()(context);
    @Controller()
    class Orders {
      @Idempotent({ message: { consumer: 'billing' }, key })
      @EventPattern(['order.placed'])
      place() {
        return undefined;
      }
    }
    await consumers.start(queue, Orders, { store: memoryStore() });
    await queue.emit('order.placed', { id: 1 });
    await queue.isEmpty();
    expect(reads).toHaveBeenCalledTimes(1);
  });
});
