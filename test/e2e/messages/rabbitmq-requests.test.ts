import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, type Type } from '@nestjs/common';
import {
  ClientProxyFactory,
  MessagePattern,
  Payload,
  RmqRecordBuilder,
  RpcException,
  type ClientProxy,
} from '@nestjs/microservices';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { EMPTY, lastValueFrom, of, throwError, toArray, type Observable } from 'rxjs';
import { until } from '../../support/waiting/until.js';
import { FaultyStore, unavailable } from '../../support/stores/faulty-store.js';
import { useBroker } from './support/use-broker.js';

const clients: ClientProxy[] = [];
afterEach(() => Promise.all(clients.splice(0).map(async (client) => client.close())));
const { consumers, openQueue } = useBroker();

type ApiResponse = () => unknown;

function prices(reply: ApiResponse, options: IdempotencyOptions = {}): Type {
  @Controller()
  class Prices {
    @Idempotent({ ...options, message: { consumer: 'prices', ...options.message } })
    @MessagePattern('price.set')
    set(@Payload() _price: unknown): unknown {
      return reply();
    }
  }
  return Prices;
}

async function asking(
  reply: ApiResponse,
  options?: IdempotencyOptions,
  store = new FaultyStore(memoryStore()),
) {
  const queue = await openQueue();
  let runs = 0;
  const counted = () => {
    runs += 1;
    return reply();
  };
  const { events } = await consumers.start(queue, prices(counted, options), { store });
  const client = ClientProxyFactory.create(queue.transport({ noAck: true }));
  clients.push(client);
  const ask = (id: string, price: unknown = { amount: 1 }): Promise<unknown[]> => {
    const record = new RmqRecordBuilder(price).setOptions({ messageId: id }).build();
    return lastValueFrom(client.send<unknown>('price.set', record).pipe(toArray()));
  };
  const failing = (id: string, price?: unknown) =>
    ask(id, price).then(
      (values) => {
        throw new Error(`it replied with ${values.length} values`);
      },
      (error: unknown) => error,
    );
  return { queue, store, events, ask, failing, runs: () => runs };
}

describe('a request', () => {
  const replies: [string, ApiResponse, unknown[]][] = [
    ['an object', () => ({ id: 1, tags: ['a'] }), [{ id: 1, tags: ['a'] }]],
    ['a promise', async () => 7, [7]],
    ['null', () => null, [null]],
    ['undefined', () => undefined, [undefined]],
    [
      'an Observable with several emissions',
      () => of(1, 'two', { three: 3 }, null),
      [1, 'two', { three: 3 }, null],
    ],
    ['an Observable without emissions', () => EMPTY, []],
    // As Nest's own client reads it from the wire.
    ['a Buffer', () => Buffer.from([1, 2, 255]), [{ type: 'Buffer', data: [1, 2, 255] }]],
  ];

  it.each(replies)(
    'that was answered with %s gets the same reply on a retry',
    async (_, reply, expected) => {
      const { ask, queue, runs } = await asking(reply);
      const first = await ask('m1');
      expect(await ask('m1')).toEqual(first);
      expect(first).toEqual(expected);
      expect(runs()).toBe(1);
      await queue.isEmpty();
    },
  );

  it('whose handler failed gets the error, and may be retried at once', async () => {
    let runs = 0;
    const { ask, failing, queue } = await asking((): unknown => {
      runs += 1;
      if (runs === 1) throw new RpcException({ code: 'SOLD_OUT' });
      return 'sold';
    });
    expect(await failing('m1')).toEqual({ code: 'SOLD_OUT' });
    expect(await ask('m1')).toEqual(['sold']);
    await queue.isEmpty();
  });

  it.each<[string, ApiResponse]>([
    [
      'thrown',
      () => {
        throw new RpcException({ code: 'SOLD_OUT' });
      },
    ],
    ['emitted', (): Observable<never> => throwError(() => new RpcException({ code: 'SOLD_OUT' }))],
  ])('whose kept RpcException was %s gets the same one on a retry', async (_, reply) => {
    const { failing, runs } = await asking(reply, { outcome: () => true });
    expect(await failing('m1')).toEqual({ code: 'SOLD_OUT' });
    expect(await failing('m1')).toEqual({ code: 'SOLD_OUT' });
    expect(runs()).toBe(1);
  });

  it('with another payload under the same key is rejected with a stable code', async () => {
    const { ask, failing, runs, queue } = await asking(() => 'done');
    await ask('m1', { amount: 1 });
    expect(await failing('m1', { amount: 2 })).toEqual({
      status: 'error',
      code: 'idempotency_key_reused',
      message: expect.any(String),
    });
    expect(runs()).toBe(1);
    await queue.isEmpty();
  });

  it('while the store is unavailable is rejected with the time to retry after', async () => {
    const { ask, failing, store, queue, runs } = await asking(() => 'done', {
      duplicates: { retryAfterMs: 250 },
    });
    store.next('begin', unavailable);
    expect(await failing('m1')).toMatchObject({
      code: 'idempotency_store_unavailable',
      retryAfterMs: 250,
    });
    expect(await ask('m1')).toEqual(['done']);
    expect(runs()).toBe(1);
    await queue.isEmpty();
  });

  it('that is retried while it is in progress gets the first reply', async () => {
    let reply: (value: string) => void = () => undefined;
    const { ask, runs, events } = await asking(
      () =>
        new Promise((resolve) => {
          reply = resolve;
        }),
    );
    const both = [ask('m1'), ask('m1')];
    await until(() => runs() === 1);
    reply('done');
    expect(await Promise.all(both)).toEqual([['done'], ['done']]);
    expect(runs()).toBe(1);
    expect(events.filter(({ type }) => type === 'replayed')).toHaveLength(1);
  });

  it('whose value was not kept says so', async () => {
    const { ask, failing } = await asking(() => 'done', { outcome: { storeBody: false } });
    expect(await ask('m1')).toEqual(['done']);
    expect(await failing('m1')).toMatchObject({ code: 'idempotency_response_not_kept' });
  });
});
