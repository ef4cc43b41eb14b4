import { describe, expect, it } from '@jest/globals';
import type { ExecutionContext } from '@nestjs/common';
import { BaseRpcContext, RedisContext, RmqContext, TcpContext } from '@nestjs/microservices';
import { kafkaOffset, patternOf, rpcSource } from '../../../support/internals/message.js';
import {
  contextOf,
  fromKafka,
  fromMqtt,
  fromNats,
  fromRabbitMq,
  fromRedis,
  fromTcp,
} from './received.js';

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
