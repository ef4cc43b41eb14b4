import { Buffer } from 'node:buffer';
import { describe, expect, it } from '@jest/globals';
import {
  defaultMessageKey,
  kafkaOffset,
  messageId,
  messageHeader,
} from '../../../support/internals/message.js';
import {
  contextOf,
  fromKafka,
  fromMqtt,
  fromNats,
  fromRabbitMq,
  fromRedis,
  fromTcp,
} from './received.js';
import { expectUnreadable } from './rejected.js';
import { IdempotencyOptionsError } from '../../../support/internals/core.js';

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

  it('is the same for a redelivered message, and different for the next one', async () => {
    const keys = [await fromKafka(), await fromKafka(), await fromKafka({ offset: '44' })].map(
      kafkaOffset(),
    );
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
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

  it('is in the header', async () => {
    const headers = { 'idempotency-key': 'order-7' };
    expect(key(await fromRabbitMq({ headers }))).toBe('order-7');
    expect(key(await fromMqtt({ userProperties: headers }))).toBe('order-7');
    expect(key(await fromRedis(headers))).toBe('order-7');
  });

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
  it('may be an integer, which is the same key as its digits', async () => {
    expect(key(await fromRabbitMq({ headers: { 'Idempotency-Key': 7 } }))).toBe('7');
    expect(key(await fromRabbitMq({ headers: { 'Idempotency-Key': '7' } }))).toBe('7');
    expect(key(await fromRabbitMq({ headers: { 'Idempotency-Key': -0 } }))).toBe('0');
  });

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
    ['a fraction', 1.5],
    ['a boolean', true],
    ['a table', { id: 7 }],
    ['a timestamp', { '!': 'timestamp', value: 1_764_000_000 }],
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
