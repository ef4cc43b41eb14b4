import { Buffer } from 'node:buffer';
import type { ExecutionContext } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/internal';
import { headers, type MsgHdrs } from '@nats-io/transport-node';
import {
  type MessageHandler,
  type Server,
  ServerKafka,
  ServerMqtt,
  ServerNats,
  ServerRedis,
  ServerRMQ,
  ServerTCP,
} from '@nestjs/microservices';
import type { KafkaMessage } from 'kafkajs';

/**
 * The arguments of an interceptor when a message arrives: each goes through Nest's own server of its transport, which
 * has no broker here, and is as its client delivers it (written down from amqplib 2.3, kafkajs 2.2 and mqtt-packet 9).
 */

export const ORDER = { order: { id: 'order-7', amount: 100 }, sentAt: '2026-11-01T12:00:00Z' };

/** @param properties - over those of a message that Nest's client would send. */
export function fromRabbitMq(properties: object = {}, data: unknown = ORDER) {
  const message = {
    fields: {
      consumerTag: 'amq.ctag-3n5G49wm03NpPU1VUw9ElQ',
      deliveryTag: 1,
      redelivered: false,
      exchange: '',
      routingKey: 'orders',
    },
    properties: {
      contentType: undefined,
      contentEncoding: undefined,
      headers: {},
      deliveryMode: 2,
      priority: undefined,
      correlationId: undefined,
      replyTo: undefined,
      expiration: undefined,
      messageId: undefined,
      timestamp: undefined,
      type: undefined,
      userId: undefined,
      appId: undefined,
      clusterId: undefined,
      ...properties,
    },
    content: Buffer.from(JSON.stringify({ pattern: 'order.placed', data })),
  };
  const channel = { ack: () => undefined, nack: () => undefined };
  const server = new ServerRMQ({ noAck: false });
  return handled(server, 'order.placed', () => server.handleMessage(message, channel));
}

/** @param message - over one of kafkajs, whose keys, values and headers are bytes. */
export function fromKafka(message: Partial<KafkaMessage> = {}) {
  const recorded = {
    magicByte: 2,
    attributes: 0,
    timestamp: '1764000000000',
    offset: '43',
    key: Buffer.from('7'),
    value: Buffer.from(JSON.stringify(ORDER)),
    headers: {},
    isControlRecord: false,
    batchContext: { firstOffset: '40', firstTimestamp: '1764000000000', magicByte: 2 },
    ...message,
  } as unknown as KafkaMessage;
  const server = new ServerKafka({});
  return handled(server, 'orders-eu', () =>
    server.handleMessage({
      topic: 'orders-eu',
      partition: 2,
      message: recorded,
      heartbeat: async () => undefined,
      pause: () => () => undefined,
    }),
  );
}

/** @param members - name and value, in order; none where it is `undefined`. */
export function fromNats(members?: readonly (readonly [string, string])[], data: unknown = ORDER) {
  let sent: MsgHdrs | undefined;
  for (const [name, value] of members ?? []) (sent ??= headers()).append(name, value);
  const text = JSON.stringify({ pattern: 'orders.placed', data });
  const message = {
    subject: 'orders.placed',
    data: new TextEncoder().encode(text),
    reply: '',
    headers: sent,
    json: () => JSON.parse(text) as unknown,
  };
  const server = new ServerNats({});
  return handled(server, 'orders.placed', () => server.handleMessage('orders.placed', message));
}

/** @param properties - those of MQTT 5; older versions have none. */
export function fromMqtt(properties?: object) {
  const payload = Buffer.from(JSON.stringify({ pattern: 'orders/placed', data: ORDER }));
  const packet = {
    cmd: 'publish',
    retain: false,
    qos: 1,
    dup: false,
    length: 75,
    topic: 'orders/placed',
    payload,
    messageId: 12,
    ...(properties !== undefined && { properties }),
  };
  const server = new ServerMqtt({});
  return handled(server, 'orders/placed', () =>
    server.handleMessage('orders/placed', payload, {}, packet),
  );
}

/** @param metadata - of the packet, since Nest 12. */
export function fromRedis(metadata?: unknown) {
  const text = JSON.stringify({ pattern: 'order.placed', data: ORDER, metadata });
  const server = new ServerRedis({});
  return handled(server, 'order.placed', () =>
    server.handleMessage('order.placed', text, {}, 'order.placed'),
  );
}

/** @param metadata - of the packet, since Nest 12. */
export function fromTcp(metadata?: unknown) {
  const server = new ServerTCP({});
  return handled(server, 'order.placed', () =>
    server.handleMessage({} as never, { pattern: 'order.placed', data: ORDER, metadata }),
  );
}

/** A message of each transport, all with the same payload. */
export function fromEverywhere(): Promise<ExecutionContext[]> {
  return Promise.all([fromRabbitMq(), fromKafka(), fromNats(), fromMqtt(), fromRedis(), fromTcp()]);
}

async function handled(
  server: Pick<Server, 'addHandler'>,
  pattern: string,
  handle: () => Promise<unknown>,
): Promise<ExecutionContext> {
  const contexts: ExecutionContext[] = [];
  const handler: MessageHandler = async (...args: unknown[]) => {
    contexts.push(contextOf('rpc', args));
    return undefined as never;
  };
  server.addHandler(pattern, handler, true);
  await handle();
  return contexts[0]!;
}

/** @param args - the arguments of a handler of this kind. */
export function contextOf(type: string, args: unknown[]): ExecutionContext {
  const context = new ExecutionContextHost(args);
  context.setType(type);
  return context;
}

/** A message of a custom transport, with this payload. */
export function withPayload(payload: unknown): ExecutionContext {
  return contextOf('rpc', [payload, undefined]);
}
