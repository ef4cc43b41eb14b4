import { Buffer } from 'node:buffer';
import { describe, expect, it } from '@jest/globals';
import type { ExecutionContext } from '@nestjs/common';
import { BaseRpcContext, RedisContext, RmqContext, TcpContext } from '@nestjs/microservices';
import { IdempotencyOptionsError } from '../../../support/internals/core.js';
import {
  defaultMessageKey,
  kafkaOffset,
  messageHeader,
  messageId,
  patternOf,
  payloadField,
  rpcSource,
} from '../../../support/internals/message.js';
import {
  contextOf,
  fromEverywhere,
  fromKafka,
  fromMqtt,
  fromNats,
  fromRabbitMq,
  fromRedis,
  fromTcp,
  ORDER,
  withPayload,
} from './received.js';
import { expectUnreadable } from './rejected.js';

describe('the id of a message', () => {
  const id = messageId();

  it('on RabbitMQ is its property, where the publisher has set it', async () => {
    expect(id(await fromRabbitMq({ messageId: 'm-1' }))).toBe('m-1');
    expect(id(await fromRabbitMq())).toBeUndefined();
    expect(id(await fromRabbitMq({ correlationId: 'c', headers: { messageId: 'h' } }))).toBe(
      undefined,
    );
  });

  it('on RabbitMQ is rejected when it is empty', async () => {
    const context = await fromRabbitMq({ messageId: '' });
    expectUnreadable(() => id(context));
  });

  it('on NATS is the header by which JetStream recognizes duplicates', async () => {
    expect(id(await fromNats([['Nats-Msg-Id', 'm-1']]))).toBe('m-1');
    expect(id(await fromNats([['Other', 'm-1']]))).toBeUndefined();
    expect(id(await fromNats())).toBeUndefined();
  });

  it('on Kafka is topic, partition and offset', async () => {
    expect(id(await fromKafka())).toBe('orders-eu-2-43');
  });

  it('is absent on transports that have none', async () => {
    const contexts = [
      await fromMqtt({ userProperties: {} }),
      await fromRedis({ messageId: 'm-1' }),
      await fromTcp({ messageId: 'm-1' }),
      contextOf('rpc', [{}, {}]),
      contextOf('http', [{ headers: {} }, {}]),
    ];
    expect(contexts.map(id)).toEqual([undefined, undefined, undefined, undefined, undefined]);
  });
});

describe('the offset as a key', () => {
  it('is topic, partition and offset', async () => {
    expect(kafkaOffset()(await fromKafka({ offset: '9007199254740993' }))).toBe(
      'orders-eu-2-9007199254740993',
    );
  });

  it('is rejected where a transport of its own kind has none', async () => {
    const context = await fromKafka({ offset: undefined as never });
    expectUnreadable(() => kafkaOffset()(context));
  });

  it('is absent on other transports', async () => {
    expect(kafkaOffset()(await fromRabbitMq({ messageId: 'm-1' }))).toBeUndefined();
    expect(kafkaOffset()(await fromNats([['Nats-Msg-Id', 'm-1']]))).toBeUndefined();
  });
});

describe('the default key', () => {
  const key = defaultMessageKey('Idempotency-Key');

  it('is that of the header rather than the message’s id', async () => {
    const header = 'Idempotency-Key';
    expect(key(await fromRabbitMq({ messageId: 'm-1', headers: { [header]: 'k' } }))).toBe('k');
    expect(key(await fromKafka({ headers: { [header]: Buffer.from('k') } }))).toBe('k');
    expect(
      key(
        await fromNats([
          ['Nats-Msg-Id', 'm-1'],
          [header, 'k'],
        ]),
      ),
    ).toBe('k');
  });

  it('is the message’s id where there is no header', async () => {
    expect(key(await fromRabbitMq({ messageId: 'm-1' }))).toBe('m-1');
    expect(key(await fromNats([['Nats-Msg-Id', 'm-1']]))).toBe('m-1');
    expect(key(await fromKafka())).toBe('orders-eu-2-43');
    expect(key(await fromRabbitMq())).toBeUndefined();
    expect(key(await fromTcp())).toBeUndefined();
  });

  it('is not the message’s id where the header cannot be read', async () => {
    const context = await fromRabbitMq({
      messageId: 'm-1',
      headers: { 'Idempotency-Key': ['a', 'b'] },
    });
    expectUnreadable(() => key(context));
  });

  it('is the message’s id with the default name in any case, and never with another name', async () => {
    const context = await fromRabbitMq({ messageId: 'm-1', headers: { 'x-key': 'k' } });
    expect(defaultMessageKey('IDEMPOTENCY-KEY')(context)).toBe('m-1');
    expect(defaultMessageKey('X-Key')(context)).toBe('k');
    expect(defaultMessageKey('X-Other')(context)).toBeUndefined();
  });
});

const key = messageHeader('Idempotency-Key');

/** A message with these headers, as far as a transport can carry them. */
const transports = {
  RabbitMQ: (headers: object) => fromRabbitMq({ headers }),
  Kafka: (headers: object) =>
    fromKafka({
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name, Buffer.from(String(value))]),
      ),
    }),
  NATS: (headers: object) =>
    fromNats(Object.entries(headers).map(([name, value]) => [name, String(value)])),
  'MQTT 5': (userProperties: object) => fromMqtt({ userProperties }),
  Redis: (metadata: object) => fromRedis(metadata),
  TCP: (metadata: object) => fromTcp(metadata),
};

describe.each(Object.entries(transports))('a header on %s', (_, receive) => {
  it('is found by its name, in any case', async () => {
    for (const name of ['Idempotency-Key', 'idempotency-key', 'IDEMPOTENCY-KEY']) {
      expect(key(await receive({ other: 'x', [name]: 'order-7' }))).toBe('order-7');
    }
    expect(messageHeader('X-KEY')(await receive({ 'x-key': 'order-7' }))).toBe('order-7');
  });

  it('is absent under another name', async () => {
    expect(key(await receive({}))).toBeUndefined();
    expect(key(await receive({ 'Idempotency-Key-2': 'x', Idempotency: 'y' }))).toBeUndefined();
  });

  it('is rejected when it is empty, or has a replacement character', async () => {
    const empty = await receive({ 'Idempotency-Key': '' });
    const garbled = await receive({ 'Idempotency-Key': 'order-\ufffd' });
    expectUnreadable(() => key(empty));
    expectUnreadable(() => key(garbled), 'order-');
  });

  it('is rejected when it occurs twice, in two spellings', async () => {
    const twice = await receive({ 'Idempotency-Key': 'order-7', 'idempotency-key': 'order-7' });
    expectUnreadable(() => key(twice), 'order-7');
  });
});

describe('a header on RabbitMQ', () => {
  it('may be bytes of text, as clients in some languages send it', async () => {
    const pool = Buffer.from('--schlüssel--');
    const headers = { 'Idempotency-Key': pool.subarray(2, -2) };
    expect(key(await fromRabbitMq({ headers }))).toBe('schlüssel');
  });

  it('is absent where it is null, or where there are no headers', async () => {
    expect(key(await fromRabbitMq({ headers: { 'Idempotency-Key': null } }))).toBeUndefined();
    expect(key(await fromRabbitMq({ headers: undefined }))).toBeUndefined();
  });

  const unreadable: [string, unknown][] = [
    ['a 64-bit integer that JavaScript has rounded', 9_007_199_254_740_992],
    ['a table', { id: 7 }],
    ['a list of several', ['a', 'b']],
    ['a list of equal ones', ['a', 'a']],
    ['a list in a list', [['a']]],
    ['bytes that are not UTF-8', Buffer.from([0x9f, 0x41, 0xff])],
    ['no bytes', Buffer.alloc(0)],
  ];
  it.each(unreadable)('is rejected when it is %s', async (_, value) => {
    const context = await fromRabbitMq({ headers: { 'Idempotency-Key': value } });
    expectUnreadable(() => key(context));
  });
});

describe('a header on Kafka', () => {
  it('may begin with a zero byte, which Nest does not change', async () => {
    const headers = { 'Idempotency-Key': Buffer.from('\0order-7') };
    expect(key(await fromKafka({ headers }))).toBe('\0order-7');
  });

  it('is rejected when it is bytes that are not UTF-8: two keys would be one', async () => {
    for (const bytes of [[0x9f, 0x41], [0x00, 0x9f], [0x80]]) {
      const context = await fromKafka({ headers: { 'Idempotency-Key': Buffer.from(bytes) } });
      expectUnreadable(() => key(context));
    }
  });

  it('is rejected when it is JSON, which Nest has parsed', async () => {
    for (const text of ['{"id":7}', '["order-7","order-8"]']) {
      const context = await fromKafka({ headers: { 'Idempotency-Key': Buffer.from(text) } });
      expectUnreadable(() => key(context));
    }
  });

  it('that occurs twice has been joined by Nest', async () => {
    const headers = { 'Idempotency-Key': [Buffer.from('a'), Buffer.from('b')] };
    expect(key(await fromKafka({ headers }))).toBe('a,b');
  });
});

describe('a header on NATS', () => {
  it('is rejected when it occurs twice, even with equal values', async () => {
    for (const second of ['order-7', 'order-8']) {
      const context = await fromNats([
        ['Idempotency-Key', 'order-7'],
        ['Idempotency-Key', second],
      ]);
      expectUnreadable(() => key(context), 'order-7');
    }
  });

  it('is absent where the message has no headers', async () => {
    expect(key(await fromNats())).toBeUndefined();
  });
});

describe('a user property of MQTT', () => {
  it('is rejected when it occurs twice', async () => {
    const context = await fromMqtt({ userProperties: { 'Idempotency-Key': ['a', 'b'] } });
    expectUnreadable(() => key(context));
  });

  it('is absent before version 5', async () => {
    expect(key(await fromMqtt())).toBeUndefined();
    expect(key(await fromMqtt({}))).toBeUndefined();
  });
});

describe('metadata of Nest’s packets', () => {
  it.each([undefined, null, 'Idempotency-Key', 7, ['order-7']])(
    'that is %p has no header',
    async (metadata) => {
      expect(key(await fromRedis(metadata))).toBeUndefined();
      expect(key(await fromTcp(metadata))).toBeUndefined();
    },
  );
});

it('has no headers where there is no message', () => {
  const request = { headers: { 'idempotency-key': 'order-7' } };
  expect(key(contextOf('http', [request, {}]))).toBeUndefined();
  expect(key(contextOf('rpc', [{}, {}]))).toBeUndefined();
});

it.each(['', undefined, 7, null])('rejects the name %p at once', (name) => {
  expect(() => messageHeader(name as string)).toThrow(IdempotencyOptionsError);
  expect(() => messageHeader(name as string)).toThrow(/messageHeader\(name\)/);
});

describe('the source of a message', () => {
  it('on RabbitMQ has the message, its channel and its pattern', async () => {
    const context = await fromRabbitMq({ messageId: 'm-1' });
    const { args } = context.switchToRpc().getContext<{ args: unknown[] }>();
    expect(rpcSource(context)).toEqual({
      transport: 'rabbitmq',
      message: expect.objectContaining({
        fields: expect.objectContaining({ deliveryTag: 1, redelivered: false }),
        properties: expect.objectContaining({ messageId: 'm-1', headers: {} }),
      }),
      channel: args[1],
      pattern: 'order.placed',
    });
  });

  it('on Kafka has the message with its place in the topic, and the heartbeat', async () => {
    const source = rpcSource(await fromKafka({ headers: { a: Buffer.from('b') } }));
    expect(source).toEqual({
      transport: 'kafka',
      message: expect.objectContaining({ offset: '43', headers: { a: 'b' } }),
      topic: 'orders-eu',
      partition: 2,
      heartbeat: expect.any(Function),
    });
  });

  it('on NATS has the subject and, if present, the headers', async () => {
    const source = rpcSource(await fromNats([['a', 'b']]));
    expect(source).toEqual({
      transport: 'nats',
      subject: 'orders.placed',
      headers: expect.anything(),
    });
    expect(source.transport === 'nats' && [...source.headers!]).toEqual([['a', ['b']]]);
    expect(rpcSource(await fromNats())).toMatchObject({ transport: 'nats', headers: undefined });
  });

  it('on MQTT has the topic and the packet', async () => {
    expect(rpcSource(await fromMqtt({ userProperties: { a: 'b' } }))).toEqual({
      transport: 'mqtt',
      topic: 'orders/placed',
      packet: expect.objectContaining({ properties: { userProperties: { a: 'b' } } }),
    });
  });

  it('on Redis and on TCP has the metadata', async () => {
    expect(rpcSource(await fromRedis({ a: 'b' }))).toEqual({
      transport: 'redis',
      channel: 'order.placed',
      metadata: { a: 'b' },
    });
    expect(rpcSource(await fromTcp({ a: 'b' }))).toEqual({
      transport: 'tcp',
      pattern: 'order.placed',
      metadata: { a: 'b' },
    });
  });

  it('has no metadata with Nest 11, whose contexts have none', () => {
    for (const known of [new RedisContext(['c']), new TcpContext([{} as never, 'c'])]) {
      const nest11 = Object.assign(known, { getMetadata: undefined });
      expect(rpcSource(contextOf('rpc', [{}, nest11]))).toMatchObject({ metadata: undefined });
    }
  });

  it('is recognized by the shape of its context, from any copy of the package', () => {
    const known = new RmqContext([{ properties: {} }, 'channel', 'pattern']);
    const copy = {
      getMessage: () => known.getMessage(),
      getChannelRef: () => known.getChannelRef() as unknown,
      getPattern: () => known.getPattern(),
    };
    expect(rpcSource(contextOf('rpc', [{}, copy]))).toEqual({
      transport: 'rabbitmq',
      message: { properties: {} },
      channel: 'channel',
      pattern: 'pattern',
    });
  });

  it('of a context that inherits from another one, or is its proxy, is its own', async () => {
    const context = await fromKafka({ offset: '43' });
    const offset = kafkaOffset();
    expect(offset(context)).toBe('orders-eu-2-43');
    const other = await fromKafka({ offset: '44' });
    const switchToRpc = () => other.switchToRpc();
    const heir = Object.create(context, {
      switchToRpc: { value: switchToRpc },
    }) as ExecutionContext;
    const proxy = new Proxy(context, {
      get: (target, name) =>
        name === 'switchToRpc' ? switchToRpc : (Reflect.get(target, name) as unknown),
    });
    expect([heir, proxy, context].map(offset)).toEqual([
      'orders-eu-2-44',
      'orders-eu-2-44',
      'orders-eu-2-43',
    ]);
  });

  const response = { getHeaders: () => ({}), getHeader: () => undefined };
  const others: [string, ExecutionContext][] = [
    [
      'gRPC, whose context is the metadata of the call',
      contextOf('rpc', [{}, { get: () => [], getMap: () => ({}) }]),
    ],
    ['a custom transport', contextOf('rpc', [{}, new BaseRpcContext(['a'])])],
    [
      'a custom transport with methods of the same names',
      contextOf('rpc', [
        {},
        {
          getMessage: () => ({}),
          getPattern: () => 'p',
          getTopic: () => 't',
          getHeaders: () => [],
        },
      ]),
    ],
    ['a message without a context', contextOf('rpc', [{}])],
    ['a stream of gRPC, called with its callback', contextOf('rpc', [{}, () => undefined])],
    ['a request', contextOf('http', [{}, response])],
    [
      'a WebSocket client’s data in the shape of a context',
      contextOf('ws', [{}, new RedisContext(['c', { 'Idempotency-Key': 'k' }])]),
    ],
  ];
  it.each(others)('is unknown for %s', (_, context) => {
    expect(rpcSource(context)).toEqual({ transport: 'other' });
    expect(patternOf(context)).toBe('');
  });
});

it('the pattern of a message is its address', async () => {
  expect(patternOf(await fromRabbitMq())).toBe('order.placed');
  expect(patternOf(await fromKafka())).toBe('orders-eu');
  expect(patternOf(await fromNats())).toBe('orders.placed');
  expect(patternOf(await fromMqtt())).toBe('orders/placed');
  expect(patternOf(await fromRedis())).toBe('order.placed');
  expect(patternOf(await fromTcp())).toBe('order.placed');
});

describe('a field of the payload', () => {
  const id = payloadField('order.id');

  it('is found in messages of every transport', async () => {
    for (const context of await fromEverywhere()) expect(id(context)).toBe('order-7');
  });

  const elsewhere: [string, ExecutionContext][] = [
    [
      'a WebSocket’s message',
      contextOf('ws', [{ order: { id: 'client' } }, ORDER, undefined, 'p']),
    ],
    [
      'the arguments of a GraphQL field',
      contextOf('graphql', [
        { order: { id: 'root' } },
        Object.assign(Object.create(null), ORDER),
        {},
        {},
      ]),
    ],
    ['the body of a request', contextOf('http', [{ body: ORDER, order: { id: 'request' } }, {}])],
  ];
  it.each(elsewhere)('is found in %s', (_, context) => {
    expect(id(context)).toBe('order-7');
  });

  it('is absent where a handler is called in another way', () => {
    expect(id(contextOf('cron', [ORDER, ORDER]))).toBeUndefined();
  });

  it('may be an integer, which is the same key as its digits', () => {
    const number = payloadField('n');
    expect(number(withPayload({ n: 7 }))).toBe('7');
    expect(number(withPayload({ n: '7' }))).toBe('7');
    expect(number(withPayload({ n: -1 }))).toBe('-1');
    expect(number(withPayload({ n: 0 }))).toBe('0');
    expect(number(withPayload({ n: -0 }))).toBe('0');
    expect(number(withPayload({ n: 7n }))).toBe('7');
    expect(number(withPayload({ n: 2n ** 64n }))).toBe('18446744073709551616');
  });

  const absent: unknown[] = [
    {},
    { order: null },
    { order: {} },
    { order: { id: null } },
    { order: { id: undefined } },
    { order: 'text' },
    { 'order.id': 'order-7' },
    Object.create({ order: { id: 'inherited' } }),
    'order.id',
    7,
    null,
    undefined,
  ];
  it.each(absent)('is absent in %j', (payload) => {
    expect(id(withPayload(payload))).toBeUndefined();
  });

  it('excludes members that every object, string or array has', () => {
    for (const path of ['constructor.name', 'length', 'order.id.length', '__proto__', 'toString']) {
      expect(payloadField(path)(withPayload(ORDER))).toBeUndefined();
      expect(payloadField(path)(withPayload('text'))).toBeUndefined();
    }
  });

  it('may be called __proto__', () => {
    const payload: unknown = JSON.parse('{"__proto__":{"id":"order-7"}}');
    expect(payloadField('__proto__.id')(withPayload(payload))).toBe('order-7');
  });

  const unreadable: [string, unknown][] = [
    ['empty', ''],
    ['an object', { value: 7 }],
    ['an array of one string', ['order-7']],
    ['a boolean', true],
    ['a fraction', 1.5],
    ['beyond the safe integers', 2 ** 53],
    ['NaN', NaN],
    ['a date', new Date(0)],
    ['bytes', Buffer.from('order-7')],
    ['a string with a replacement character', 'order-\ufffd'],
  ];
  it.each(unreadable)('is rejected when it is %s', (_, value) => {
    expectUnreadable(() => id(withPayload({ order: { id: value } })), 'order-');
  });

  it('is rejected behind an array, for a list is not a key', () => {
    expectUnreadable(() => id(withPayload({ order: [{ id: 'order-7' }] })));
    expectUnreadable(() => id(withPayload([ORDER])));
    expectUnreadable(() => payloadField('items.0')(withPayload({ items: ['order-7'] })));
    expectUnreadable(() => payloadField('items.length')(withPayload({ items: ['a'] })));
  });

  it.each(['', '.', 'order.', '.id', 'order..id', undefined, 7, ['order', 'id']])(
    'rejects the path %p at once',
    (path) => {
      expect(() => payloadField(path as string)).toThrow(IdempotencyOptionsError);
      expect(() => payloadField(path as string)).toThrow(/payloadField\(path\)/);
    },
  );
});
