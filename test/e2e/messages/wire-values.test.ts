import { afterEach, describe, expect, it } from '@jest/globals';
import { Catch, Controller, type INestMicroservice } from '@nestjs/common';
import {
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Transport,
  type ClientProxy,
  type IncomingRequest,
  type TcpOptions,
} from '@nestjs/microservices';
import { Idempotent, type IdempotencyOptions } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { EMPTY, lastValueFrom, type Observable } from 'rxjs';
import { until } from '../../support/waiting/until.js';
import { freePort } from '../../support/servers/free-port.js';
import { startConsumer } from './support/start-consumer.js';

let app: INestMicroservice | undefined;
let client: ClientProxy | undefined;
afterEach(async () => {
  await client?.close();
  await app?.close();
});

/** Records what a handler's own exception filter receives. */
@Catch()
class Noting {
  readonly errors: unknown[] = [];

  catch(error: unknown): Observable<never> {
    this.errors.push(error);
    return EMPTY;
  }
}

async function start(
  reply: () => unknown,
  options: IdempotencyOptions = {},
  more: Partial<NonNullable<TcpOptions['options']>> & { filter?: Noting } = {},
) {
  const { filter, ...server } = more;
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
      options: { store: memoryStore() },
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

  it.each<[string, () => unknown]>([
    ['a BigInt', () => ({ total: 1n })],
    ['a Map', () => new Map([[1, 2]])],
    ['undefined in an array', () => [undefined]],
  ])(
    'with %s, which would be lost, is rejected with a stable code, and the operation does not run again',
    async (_, reply) => {
      const { ask, runs } = await start(reply);
      await expect(ask()).rejects.toEqual({
        status: 'error',
        code: 'idempotency_value_not_storable',
        message: expect.any(String),
      });
      await expect(ask()).rejects.toMatchObject({ code: 'idempotency_response_not_kept' });
      expect(runs()).toBe(1);
    },
  );
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
  it('is rejected with a message that does not call it a request', async () => {
    const filter = new Noting();
    const { emit, runs } = await start(() => undefined, {}, { filter });
    await emit();
    await until(() => filter.errors.length === 1);
    const [error] = filter.errors as [Error];
    expect(error).toMatchObject({ code: 'idempotency_key_missing' });
    expect(error.message).toMatch(/Orders\.place/);
    expect(error.message).not.toMatch(/request/i);
    expect(runs()).toBe(0);
  });
});
