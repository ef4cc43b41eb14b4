import { setImmediate } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  type INestMicroservice,
  Logger,
  Module,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import {
  BaseRpcExceptionFilter,
  Ctx,
  EventPattern,
  MessagePattern,
  type MicroserviceOptions,
  type RmqContext,
} from '@nestjs/microservices';
import { NestFactory } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  IdempotencyModule,
  type IdempotencyOptions,
  Idempotent,
  OperationRejectedError,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import { map, NEVER, type Observable, tap, timeout } from 'rxjs';
import { DrivenTime } from '../../support/clocks/driven-time.js';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { type Channel, type Delivered, deliveredIn, emitOrder, orders } from './support/orders.js';
import { useBroker } from './support/use-broker.js';
import { startConsumer } from './support/start-consumer.js';

const { consumers, openQueue, openLimitedQueue, openRelay } = useBroker();

/** Whose acks of a message reach the broker, and when. */
interface Acknowledging {
  readonly handle?: (delivered: Delivered, run: number) => unknown;
  readonly options?: IdempotencyOptions;
  /** Adds a guard, an outer interceptor or an exception filter. */
  readonly configure?: (app: INestMicroservice) => unknown;
  /** Acknowledges once the broker has all that it is to get. */
  readonly late?: Action;
  /** What the broker gets for each delivery of the message. */
  readonly broker: readonly ('acked' | 'requeued' | 'discarded')[];
  /** Which method of AMQP does it, where that is the application's choice. */
  readonly methods?: readonly ('nack' | 'reject')[];
  readonly runs: number;
  readonly warning?: string;
}

type Action = (delivered: Delivered) => unknown;

const ack: Action = ({ channel, message }) => channel.ack(message);
const requeue: Action = ({ channel, message }) => channel.nack(message);
const discard: Action = ({ channel, message }) => channel.nack(message, false, false);
const reject: Action = ({ channel, message }) => channel.reject(message, false);
const putBack: Action = ({ channel, message }) => channel.reject(message);

function fail(): never {
  throw new Error('planned');
}

/** The message of the case; the other one shows that the channel is still open. */
const isOfCase = ({ id }: Delivered) => id === 1;

function guard(action: Action, passes: boolean) {
  return (app: INestMicroservice) =>
    app.useGlobalGuards({
      canActivate: (context) => {
        const delivered = deliveredIn(context);
        if (!isOfCase(delivered)) return true;
        action(delivered);
        return passes;
      },
    });
}

function outer(pipe: (handled: Observable<unknown>, delivered: Delivered) => Observable<unknown>) {
  return (app: INestMicroservice) =>
    app.useGlobalInterceptors({
      intercept: (context, next) => {
        const delivered = deliveredIn(context);
        return isOfCase(delivered) ? pipe(next.handle(), delivered) : next.handle();
      },
    });
}

/** Nest's own filter, after the action. */
function filter(action: Action, inner?: (app: INestMicroservice) => unknown) {
  @Catch()
  class Acknowledging extends BaseRpcExceptionFilter {
    override catch(error: any, host: ArgumentsHost): Observable<unknown> {
      void action(deliveredIn(host));
      return super.catch(error, host);
    }
  }
  return (app: INestMicroservice) => {
    inner?.(app);
    app.useGlobalFilters(new Acknowledging());
  };
}

/** A handler that continues after an outer interceptor has timed out, until a filter has acknowledged. */
function outlived(action: Action, end?: () => never) {
  const gate = Gate.closed();
  const timesOut = outer((handled) => handled.pipe(timeout(30)));
  const configure = filter((delivered) => {
    action(delivered);
    gate.open();
  }, timesOut);
  const handle = async () => {
    await gate.pass();
    end?.();
  };
  return { handle, configure };
}

/** Acknowledges a batch from a timer that was created outside of any message. */
function batchTimer(action: Action) {
  let flush: (() => void) | undefined;
  const timer = setInterval(() => flush?.(), 10).unref();
  return (delivered: Delivered) =>
    new Promise<void>((resolve) => {
      flush = () => {
        clearInterval(timer);
        action(delivered);
        resolve();
      };
    });
}

const unprotected: IdempotencyOptions = {
  key: { from: () => undefined, required: false },
};
const acceptedNot = (action: string) => `got "accept" and not "${action}"`;
const EARLY = 'was acknowledged before @Idempotent() received it';

const CASES: Readonly<Record<string, Acknowledging>> = {
  'a handler that acks': { handle: ack, broker: ['acked'], runs: 1 },
  'a handler that acks, nacks and then fails': {
    handle: (delivered) => (ack(delivered), requeue(delivered), fail()),
    broker: ['acked'],
    runs: 1,
  },
  'a handler that dead-letters by nack': {
    handle: discard,
    broker: ['discarded'],
    methods: ['nack'],
    runs: 1,
  },
  'a handler that dead-letters by reject': {
    handle: reject,
    broker: ['discarded'],
    methods: ['reject'],
    runs: 1,
  },
  'a handler that dead-letters, unprotected': {
    handle: discard,
    options: unprotected,
    broker: ['discarded'],
    runs: 1,
  },
  'a handler without an ack, unprotected': { options: unprotected, broker: ['acked'], runs: 1 },
  'a handler that requeues, although every outcome is kept': {
    handle: (delivered, run) => run === 1 && requeue(delivered),
    options: { outcome: () => true },
    broker: ['requeued', 'acked'],
    methods: ['nack'],
    runs: 2,
  },
  'a handler whose batch is dead-lettered by a timer': {
    handle: batchTimer(discard),
    broker: ['discarded'],
    runs: 1,
  },
  'a handler that acks and nacks after its outcome is stored': {
    late: (delivered) => (ack(delivered), requeue(delivered)),
    broker: ['acked'],
    runs: 1,
    warning: acceptedNot('requeue'),
  },
  'a guard that acks': { configure: guard(ack, true), broker: ['acked'], runs: 1, warning: EARLY },
  'a guard that nacks': {
    configure: guard(discard, true),
    broker: ['discarded'],
    runs: 1,
    warning: EARLY,
  },
  'a guard that nacks and rejects, and a filter that nacks': {
    configure: filter(requeue, guard(discard, false)),
    broker: ['discarded'],
    runs: 0,
  },
  'an outer interceptor that acks a success': {
    configure: outer((handled, delivered) =>
      handled.pipe(tap({ complete: () => void ack(delivered) })),
    ),
    broker: ['acked'],
    runs: 1,
  },
  'an outer interceptor that dead-letters a failure': {
    handle: fail,
    configure: outer((handled, delivered) =>
      handled.pipe(tap({ error: () => void discard(delivered) })),
    ),
    broker: ['discarded'],
    runs: 1,
  },
  'an outer interceptor that requeues a success': {
    configure: outer((handled, delivered) =>
      handled.pipe(tap({ complete: () => void requeue(delivered) })),
    ),
    broker: ['acked'],
    runs: 1,
    warning: acceptedNot('requeue'),
  },
  'an outer interceptor that dead-letters a success': {
    configure: outer((handled, delivered) => handled.pipe(tap(() => void discard(delivered)))),
    broker: ['acked'],
    runs: 1,
    warning: acceptedNot('dead-letter'),
  },
  'a filter that acks a failure': {
    handle: fail,
    configure: filter(ack),
    broker: ['acked'],
    runs: 1,
  },
  'a filter that dead-letters a failure soon, and then requeues it': {
    handle: fail,
    configure: filter(async (delivered) => {
      await Promise.resolve();
      discard(delivered);
      requeue(delivered);
    }),
    broker: ['discarded'],
    runs: 1,
  },
  'a filter that requeues a failure, against "message.onFailure"': {
    handle: (_, run) => run === 1 && fail(),
    options: { message: { onFailure: 'dead-letter' } },
    configure: filter(requeue),
    broker: ['requeued', 'acked'],
    methods: ['nack'],
    runs: 2,
  },
  'a filter that dead-letters a failure late, and again before the redelivery is requeued': {
    handle: fail,
    options: { message: { redeliveryDelay: 1_000 } },
    configure: filter(async (delivered) => {
      await setImmediate();
      // The library acknowledges in the first iteration of the event loop.
      await setImmediate();
      discard(delivered);
    }),
    broker: ['requeued', 'discarded'],
    runs: 2,
    warning: 'got "requeue" and not "dead-letter"',
  },
  'a filter that requeues what an outer interceptor failed to read of a success': {
    configure: filter(
      requeue,
      outer((handled) => handled.pipe(map(fail))),
    ),
    broker: ['acked'],
    runs: 1,
    warning: acceptedNot('requeue'),
  },
  'a filter that requeues after a timeout, and the handler succeeds': {
    ...outlived(requeue),
    broker: ['acked'],
    runs: 1,
    warning: acceptedNot('requeue'),
  },
  'a filter that dead-letters after a timeout, and the handler fails': {
    ...outlived(discard, fail),
    broker: ['discarded'],
    runs: 1,
  },
};

let warn: jest.SpiedFunction<Logger['warn']>;
beforeEach(() => {
  warn = jest.spyOn(Logger.prototype, 'warn');
});
afterEach(() => warn.mockRestore());

describe("a message's acks reach the broker once, and its channel stays open", () => {
  it.each(Object.entries(CASES))('%s', async (operation, acknowledging) => {
    const { handle, options, configure, late, broker, methods = [], runs, warning } = acknowledging;
    const queue = await openQueue();
    const { log, connection } = await openRelay();
    const received: Delivered[] = [];
    const controller = orders(
      (delivered) => {
        if (!isOfCase(delivered)) return undefined;
        received.push(delivered);
        return handle?.(delivered, received.length);
      },
      { ...options, operation },
    );
    await consumers.start(
      queue,
      controller,
      { store: memoryStore() },
      { connection, ...(configure && { configure }) },
    );
    await emitOrder(queue, 1);
    await until(() => log.deliveries.length === broker.length);
    late?.(received[0]!);
    await emitOrder(queue, 2);
    await until(() => log.deliveries.some(({ key }) => key === 'm2'));
    await queue.isEmpty();
    expect(log.deliveries.map(({ key, end }) => [key, end])).toEqual([
      ...broker.map((end) => ['m1', end]),
      ['m2', 'acked'],
    ]);
    expect(log.deliveries.slice(0, methods.length).map(({ method }) => method)).toEqual(methods);
    expect(log.closes).toEqual([]);
    expect(received).toHaveLength(runs);
    const warnings = warn.mock.calls.map(([line]) => String(line));
    expect(warnings.filter((line) => line.startsWith(operation))).toEqual(
      warning === undefined ? [] : [expect.stringContaining(warning)],
    );
  });
});

/** What RabbitMQ 4.3 counts towards a queue's limit of deliveries: a `reject`, and no `nack`. */
describe('the broker gets', () => {
  type Case = Pick<Acknowledging, 'handle' | 'options' | 'configure'> & {
    readonly store?: FaultyStore;
    readonly id?: string;
  };
  const unavailableStore = () => {
    const store = new FaultyStore(memoryStore());
    store.always(unavailable, 'begin');
    return store;
  };
  const conflicts = () => {
    throw new OperationRejectedError('planned', 'idempotency_transaction_conflict', 20);
  };
  const REQUEUES: Readonly<Record<string, readonly ['nack' | 'reject', Case]>> = {
    'a failure': ['reject', { handle: fail }],
    'a failure whose "message.onFailure" fails': [
      'reject',
      { handle: fail, options: { message: { onFailure: fail } } },
    ],
    'a message without a key': ['reject', { id: '' }],
    'a reject of its handler': ['reject', { handle: putBack }],
    'a reject of its handler, which then fails': [
      'reject',
      { handle: (delivered) => (putBack(delivered), fail()) },
    ],
    'a reject of a filter': ['reject', { handle: fail, configure: filter(putBack) }],
    'an operation within that may be repeated': ['nack', { handle: conflicts }],
    'a store that is unavailable': [
      'nack',
      {
        store: unavailableStore(),
        options: { duplicates: { retryAfter: 400 }, message: { maxPause: 1_000 } },
      },
    ],
  };
  const DISCARDS: typeof REQUEUES = {
    'a failure that is dead-lettered': [
      'reject',
      { handle: fail, options: { message: { onFailure: 'dead-letter' } } },
    ],
    'a failure that a function dead-letters': [
      'reject',
      { handle: fail, options: { message: { onFailure: () => 'dead-letter' } } },
    ],
    'a failure that is kept': ['reject', { handle: fail, options: { outcome: () => true } }],
  };

  const rowsOf = (cases: typeof REQUEUES) =>
    Object.entries(cases).map(([name, [method, one]]) => [name, method, one] as const);

  async function firstEnd({ handle, options = {}, configure, store, id = 'm1' }: Case) {
    const queue = await openQueue();
    const { log, connection } = await openRelay();
    await consumers.start(
      queue,
      orders(
        (delivered) => (delivered.message.fields.redelivered ? undefined : handle?.(delivered, 1)),
        options,
      ),
      { store: store ?? memoryStore() },
      { connection, ...(configure && { configure }) },
    );
    await queue.emit('order.placed', { id: 1 }, { messageId: id });
    await until(() => log.deliveries.length > 0);
    return log.deliveries[0];
  }

  it.each(rowsOf(REQUEUES))('a requeue for %s by %s', async (_, method, one) => {
    expect(await firstEnd(one)).toMatchObject({ end: 'requeued', method });
  });

  it.each(rowsOf(DISCARDS))('a discard for %s by %s', async (_, method, one) => {
    expect(await firstEnd(one)).toMatchObject({ end: 'discarded', method });
  });

  it('a copy of a message in progress by nack, where it is requeued', async () => {
    const queue = await openQueue();
    const { log, connection } = await openRelay();
    const gate = Gate.closed();
    const controller = orders(() => gate.pass(), { duplicates: { mode: 'reject' } });
    await consumers.start(queue, controller, { store: memoryStore() }, { connection });
    for (let copy = 1; copy <= 2; copy += 1) await emitOrder(queue, 1);
    await until(() => log.deliveries.length > 0);
    expect(log.deliveries[0]).toMatchObject({ end: 'requeued', method: 'nack' });
    gate.open();
    await queue.isEmpty();
  });
});

describe('a channel with messages in progress', () => {
  const start = async (controllers: Type[]) => {
    const queue = await openQueue();
    const { log, connection } = await openRelay();
    await consumers.start(queue, controllers, { store: memoryStore() }, { connection });
    const acked = (...keys: string[]) =>
      until(() => keys.every((key) => log.deliveries.some((one) => one.key === key)));
    return { queue, log, acked };
  };

  it("acknowledges a batch that one of its messages' handlers acknowledges", async () => {
    const gate = Gate.closed();
    const batch: Delivered[] = [];
    const handler = orders((delivered) => {
      batch.push(delivered);
      if (batch.length < 3) return gate.pass();
      for (const one of batch) ack(one);
      gate.open();
      return undefined;
    });
    const { queue, log, acked } = await start([handler]);
    for (const id of [1, 2, 3]) await emitOrder(queue, id);
    await acked('m1', 'm2', 'm3');
    await queue.isEmpty();
    expect(log.deliveries.map(({ end }) => end)).toEqual(['acked', 'acked', 'acked']);
    expect(log.closes).toEqual([]);
  });

  it('sends the acks of an unprotected handler at once', async () => {
    const gate = Gate.closed();
    @Controller()
    class Unprotected {
      @EventPattern(['order.seen'])
      see(@Ctx() context: RmqContext): void {
        (context.getChannelRef() as Channel).ack(context.getMessage());
      }
    }
    const { queue, log, acked } = await start([orders(() => gate.pass()), Unprotected]);
    await emitOrder(queue, 1);
    await queue.emit('order.seen', { id: 2 }, { messageId: 'seen' });
    await acked('seen');
    expect(log.unacknowledged).toBe(1);
    gate.open();
    await acked('m1');
    expect(log.closes).toEqual([]);
  });

  it.each([
    ['ack(message, true)', ({ channel, message }: Delivered) => channel.ack(message, true)],
    ['ackAll()', ({ channel }: Delivered) => channel.ackAll()],
  ])(
    'throws at %s, because outcomes of other messages may not be stored yet',
    async (_, acknowledge) => {
      const { queue, deadLettered } = await openLimitedQueue();
      const errors: unknown[] = [];
      const controller = orders(
        (delivered) => {
          try {
            acknowledge(delivered);
          } catch (error) {
            errors.push(error);
            throw error;
          }
        },
        { message: { onFailure: 'dead-letter' } },
      );
      await consumers.start(queue, controller, { store: memoryStore() });
      await emitOrder(queue, 1);
      await deadLettered.holds(1);
      expect(errors).toEqual([expect.objectContaining({ code: 'idempotency_options_invalid' })]);
    },
  );
});

const redis = useRedis();

describe('a message for a handler of requests, to which Nest does not reply', () => {
  it('is an event even with a "replyTo": it is redelivered when it fails', async () => {
    const queue = await openQueue();
    let runs = 0;
    @Controller()
    class Prices {
      @Idempotent({ message: { consumer: 'billing', redeliveryDelay: 20 } })
      @MessagePattern('order.price')
      price(): void {
        runs += 1;
        if (runs < 3) throw new Error('planned');
      }
    }
    await consumers.start(queue, Prices, { store: memoryStore() });
    // Other frameworks set these for every message. Nest counts messages with an "id" in their content as requests.
    const replies = { replyTo: 'no-such-queue', correlationId: 'c1' };
    await queue.emit('order.price', { id: 1 }, { messageId: 'm1', ...replies });
    await until(() => runs === 3);
    await queue.isEmpty();
  });
});

describe('a shutdown', () => {
  it('of a hybrid application returns messages to other consumers before it finishes those in progress', async () => {
    const queue = await openQueue();
    const { log, connection } = await openRelay();
    const gate = Gate.closed();
    const handled: number[] = [];
    const controller = orders(async ({ id }) => {
      handled.push(id);
      await gate.pass();
    });
    @Module({
      imports: [IdempotencyModule.forRoot({ store: memoryStore() })],
      controllers: [controller],
    })
    class Hybrid {}
    const app = await NestFactory.create(Hybrid, { logger: false });
    app.connectMicroservice<MicroserviceOptions>(
      queue.transport({ prefetchCount: 2, ...connection }),
    );
    await app.startAllMicroservices();
    await app.init();
    await emitOrder(queue, 1);
    await until(() => handled.length === 1);
    const closed = app.close();
    for (const id of [2, 3, 4]) await emitOrder(queue, id);
    // Its consumer has ended.
    await until(async () =>
      isDeepStrictEqual(await queue.depth(), { ready: 3, unacked: 1, consumers: 0 }),
    );
    expect(log.deliveries).toEqual([
      expect.objectContaining({ key: 'm2', end: 'requeued', method: 'nack' }),
    ]);
    gate.open();
    await closed;
    expect(handled).toEqual([1]);
    expect(log.closes).toMatchObject([{ by: 'consumer' }]);
  });

  it('leaves unstarted messages to the next consumer, and finishes started ones', async () => {
    const queue = await openQueue();
    const handled: number[] = [];
    const gate = Gate.closed();
    const first = orders(async ({ id }) => {
      handled.push(id);
      await gate.pass();
    });
    const store = () => redisStore({ url: redis.url });
    const { app } = await consumers.start(queue, first, { store: store() });
    await emitOrder(queue, 1);
    await until(() => handled.length === 1);
    const closed = app.close();
    await emitOrder(queue, 2);
    gate.open();
    await closed;
    await queue.holds(2);
    await consumers.start(
      queue,
      orders(({ id }) => handled.push(id)),
      { store: store() },
    );
    await queue.isEmpty();
    expect(handled).toEqual([1, 2]);
  });
});

describe('the application does not start', () => {
  const started = async (controllers: Type[], transport: object = {}) => {
    const queue = await openQueue();
    return startConsumer(queue.transport(transport), {
      controllers,
      options: { store: memoryStore() },
    });
  };

  it('with "noAck": true, because the broker would forget a message as soon as it is sent', async () => {
    const controllers = [orders(() => undefined)];
    await expect(started(controllers, { noAck: true })).rejects.toThrow(/"noAck" to false/);
    // Nest's default.
    await expect(started(controllers, { noAck: undefined })).rejects.toThrow(/"noAck" to false/);
  });

  it('without the option "message.consumer"', async () => {
    const controllers = [orders(() => undefined, { message: { consumer: undefined } } as never)];
    await expect(started(controllers)).rejects.toMatchObject({
      code: 'idempotency_options_invalid',
      message: expect.stringMatching(/Orders\.place .* "message\.consumer"/),
    });
  });

  it('with two handlers of one event, which would share one acknowledgement', async () => {
    @Controller()
    class Others {
      @EventPattern(['order.placed'])
      place() {
        return undefined;
      }
    }
    await expect(started([orders(() => undefined), Others])).rejects.toThrow(
      /Orders\.place and Others\.place .*one delivery/,
    );
  });

  it('unless the handlers are unprotected or reply', async () => {
    @Controller()
    class Unprotected {
      @EventPattern(['order.placed'])
      place() {
        return undefined;
      }
      @MessagePattern('order.price')
      price() {
        return 1;
      }
    }
    const queue = await openQueue();
    await consumers.start(queue, Unprotected, { store: memoryStore() }, { noAck: true });
    await queue.isConsumed();
  });
});

describe('in driven time', () => {
  const time = new DrivenTime();
  beforeEach(() => time.start());
  afterEach(() => time.stop());

  const now = () => time.now();

  /** An interceptor inside @Idempotent() that times out before the handler ends, the first time. */
  function withShortTimeout(): NestInterceptor {
    let isFirst = true;
    return {
      intercept: (_, next) => {
        const wasFirst = isFirst;
        isFirst = false;
        return wasFirst ? next.handle().pipe(timeout(30)) : next.handle();
      },
    };
  }

  /** A handler that waits at its gate, and counts its executions. */
  class SlowWork {
    readonly gate = Gate.closed();
    runs = 0;

    async run(): Promise<void> {
      this.runs += 1;
      await this.gate.pass();
    }
  }

  /** Counts the deliveries that reach the interceptor. */
  function arrivals() {
    const counted = { count: 0 };
    const guard = {
      canActivate: () => {
        counted.count += 1;
        return true;
      },
    };
    return { counted, guard };
  }

  describe('a handler that continues after an inner interceptor has timed out', () => {
    it('does not run concurrently with itself, and its success counts: each copy is acknowledged', async () => {
      const queue = await openQueue();
      const work = new SlowWork();
      const { counted, guard } = arrivals();
      const { events } = await consumers.start(
        queue,
        orders(() => work.run(), {}, withShortTimeout()),
        { store: memoryStore() },
        { configure: (app) => app.useGlobalGuards(guard) },
      );
      await emitOrder(queue, 1);
      // It is redelivered, and waits.
      await until(() => counted.count >= 2);
      await emitOrder(queue, 1);
      await until(() => counted.count >= 3);
      expect(work.runs).toBe(1);
      work.gate.open();
      await queue.isEmpty();
      expect(work.runs).toBe(1);
      const types = events.map(({ type }) => type);
      expect(types.filter((type) => type === 'completed')).toHaveLength(1);
      expect(types.filter((type) => type === 'replayed')).toHaveLength(2);
      expect(types).not.toContain('released');
    });
  });

  /** Less than two heartbeats of the connection, whose timers are driven too. */
  const ENDING_MS = 2_000;
  /** The lease and the attempt expire at the same time. */
  const ENDING = { lease: { duration: ENDING_MS, maxExecution: ENDING_MS } };

  describe('a message whose handler is still running at its deadline', () => {
    it.each(['before', 'after'] as const)(
      'is acknowledged if the handler acknowledges %s it, and no longer blocks the queue',
      async (when) => {
        const queue = await openQueue();
        const runs: number[] = [];
        const gate = new Gate();
        if (when === 'after') gate.close();
        const controller = orders(({ id, channel, message }) => {
          runs.push(id);
          if (id !== 1) return undefined;
          void gate.pass().then(() => channel.ack(message));
          return NEVER;
        }, ENDING);
        const { events } = await consumers.start(
          queue,
          controller,
          { store: memoryStore({ now }), limits: { shutdownTimeout: 0 } },
          { prefetch: 1 },
        );
        await emitOrder(queue, 1);
        await emitOrder(queue, 2);
        await until(() => runs.length === 1);
        expect(await queue.depth()).toMatchObject({ ready: 1, unacked: 1 });
        await time.pass(ENDING_MS);
        await until(() => events.some(({ type }) => type === 'lease_lost'));
        gate.open();
        await until(() => runs.includes(2));
        await queue.isEmpty();
        expect(runs).toEqual([1, 2]);
      },
    );

    it('stays unacknowledged, and is not handled concurrently', async () => {
      const queue = await openQueue();
      const work = new SlowWork();
      const { counted, guard } = arrivals();
      const { events } = await consumers.start(
        queue,
        orders(() => work.run(), ENDING),
        { store: memoryStore({ now }) },
        { configure: (app) => app.useGlobalGuards(guard) },
      );
      await emitOrder(queue, 1);
      await until(() => work.runs === 1);
      await time.pass(ENDING_MS);
      await until(() => events.some(({ type }) => type === 'lease_lost'));
      expect(await queue.depth()).toMatchObject({ ready: 0, unacked: 1 });
      work.gate.open();
      await queue.isEmpty();
      expect(counted.count).toBe(1);
      expect(work.runs).toBe(1);
      expect(events).toContainEqual(expect.objectContaining({ type: 'completed', late: true }));
    });
  });

  describe('a handler that acknowledges late', () => {
    it('and requeues its message after an interceptor has timed out gets it again', async () => {
      const queue = await openQueue();
      const gate = Gate.closed();
      const { counted, guard } = arrivals();
      let runs = 0;
      const controller = orders(
        async (delivered) => {
          runs += 1;
          if (runs > 1) return;
          await gate.pass();
          requeue(delivered);
        },
        {},
        withShortTimeout(),
      );
      await consumers.start(
        queue,
        controller,
        { store: memoryStore() },
        { configure: (app) => app.useGlobalGuards(guard) },
      );
      await emitOrder(queue, 1);
      await until(() => counted.count >= 2);
      gate.open();
      await queue.isEmpty();
      expect(runs).toBe(2);
    });
  });
});
