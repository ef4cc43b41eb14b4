import { Buffer } from 'node:buffer';
import { describe, expect, it } from '@jest/globals';
import { defaultMessageKey, kafkaOffset, messageId } from '../../../support/internals/message.js';
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
