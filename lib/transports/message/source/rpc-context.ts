import type { errorMonitor } from 'node:events';
import type { ExecutionContext } from '@nestjs/common';
import { SymbolSlot } from '../../../core/util/symbol-slot.js';

/** Where a message came from, and what its transport knows of it. */
export type RpcSource =
  | {
      readonly transport: 'rabbitmq';
      readonly message: RabbitMqMessage;
      readonly channel: RabbitMqChannel;
      readonly pattern: string;
    }
  | {
      readonly transport: 'kafka';
      readonly message: KafkaMessage;
      readonly topic: string;
      readonly partition: number;
      /** Keeps the consumer in its group. */
      readonly heartbeat: () => Promise<void>;
    }
  | {
      readonly transport: 'nats';
      readonly subject: string;
      readonly headers: NatsHeaders | undefined;
    }
  | { readonly transport: 'redis'; readonly channel: string; readonly metadata: unknown }
  | { readonly transport: 'mqtt'; readonly topic: string; readonly packet: MqttPacket | undefined }
  | { readonly transport: 'tcp'; readonly pattern: string; readonly metadata: unknown }
  /** gRPC, a custom transport, or not a message. */
  | { readonly transport: 'other' };

/** What is used of amqplib's message. */
export interface RabbitMqMessage {
  readonly fields: {
    readonly deliveryTag: number;
    readonly redelivered: boolean;
    readonly consumerTag?: string;
  };
  readonly properties: {
    readonly replyTo?: unknown;
    readonly correlationId?: unknown;
    readonly messageId?: unknown;
    readonly headers?: unknown;
  };
}

/** What is used of amqplib's channel. */
export interface RabbitMqChannel {
  ack(message: RabbitMqMessage, allUpTo?: boolean): void;
  nack(message: RabbitMqMessage, allUpTo?: boolean, requeue?: boolean): void;
  reject(message: RabbitMqMessage, requeue?: boolean): void;
  ackAll(): void;
  nackAll(requeue?: boolean): void;
  /** Ends a consumer; its unacknowledged messages stay with it. */
  cancel?(consumerTag: string): unknown;
  once(event: 'close' | typeof errorMonitor, listener: () => void): unknown;
}

/** What is used of a Kafka message; Nest has decoded its headers. */
export interface KafkaMessage {
  readonly offset: string;
  readonly headers?: Readonly<Record<string, unknown>>;
}

/** The `MsgHdrs` of NATS: every name with all of its values. */
export type NatsHeaders = Iterable<readonly [name: string, values: readonly string[]]>;

/** What is used of an MQTT packet; it has properties since MQTT 5. */
export interface MqttPacket {
  readonly properties?: { readonly userProperties?: unknown };
}

/**
 * What is used of the contexts of Nest's transports, which are recognized by their methods, not by their classes: the
 * package is an optional peer, and may be installed twice.
 */
interface RpcContext {
  getMessage(): RabbitMqMessage & KafkaMessage;
  getChannelRef(): RabbitMqChannel;
  getPattern(): string;
  getTopic(): string;
  getPartition(): number;
  getHeartbeat(): () => Promise<void>;
  getSubject(): string;
  getHeaders(): NatsHeaders | undefined;
  getPacket(): MqttPacket | undefined;
  getSocketRef(): unknown;
  getChannel(): string;
  /** Of TCP and Redis, since Nest 12. */
  getMetadata?(): unknown;
}

const OTHER: RpcSource = Object.freeze({ transport: 'other' });

/** Kept with the context: key functions get nothing else, and the application may call several. */
const sources = new SymbolSlot<RpcSource>('rpc-source');

/** A message's source, read from its context once. Never throws: an unknown source is `'other'`. */
export function rpcSource(context: ExecutionContext): RpcSource {
  if (context.getType() !== 'rpc') return OTHER;
  const known = sources.get(context);
  if (known !== undefined) return known;
  const source = sourceOf(context.switchToRpc().getContext());
  sources.set(context, source);
  return source;
}

function sourceOf(host: unknown): RpcSource {
  if (hasMethods(host, 'getMessage', 'getChannelRef', 'getPattern')) {
    return {
      transport: 'rabbitmq',
      message: host.getMessage(),
      channel: host.getChannelRef(),
      pattern: host.getPattern(),
    };
  }
  if (hasMethods(host, 'getMessage', 'getTopic', 'getPartition', 'getHeartbeat')) {
    return {
      transport: 'kafka',
      message: host.getMessage(),
      topic: host.getTopic(),
      partition: host.getPartition(),
      heartbeat: host.getHeartbeat(),
    };
  }
  if (hasMethods(host, 'getSubject', 'getHeaders')) {
    return { transport: 'nats', subject: host.getSubject(), headers: host.getHeaders() };
  }
  if (hasMethods(host, 'getTopic', 'getPacket')) {
    return { transport: 'mqtt', topic: host.getTopic(), packet: host.getPacket() };
  }
  if (hasMethods(host, 'getSocketRef', 'getPattern')) {
    return { transport: 'tcp', pattern: host.getPattern(), metadata: host.getMetadata?.() };
  }
  if (hasMethods(host, 'getChannel')) {
    return { transport: 'redis', channel: host.getChannel(), metadata: host.getMetadata?.() };
  }
  return OTHER;
}

/** The message's pattern, topic, subject or channel; empty where the transport is unknown. */
export function patternOf(context: ExecutionContext): string {
  const source = rpcSource(context);
  switch (source.transport) {
    case 'rabbitmq':
    case 'tcp':
      return source.pattern;
    case 'kafka':
    case 'mqtt':
      return source.topic;
    case 'nats':
      return source.subject;
    case 'redis':
      return source.channel;
    case 'other':
      return '';
  }
}

function hasMethods<Name extends keyof RpcContext>(
  host: unknown,
  ...names: readonly Name[]
): host is Pick<RpcContext, Name | 'getMetadata'> {
  return (
    typeof host === 'object' &&
    host !== null &&
    names.every((name) => typeof (host as Partial<RpcContext>)[name] === 'function')
  );
}
