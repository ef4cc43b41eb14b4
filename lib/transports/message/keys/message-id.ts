import { rpcSource, type RpcSource } from '../rpc-context.js';
import { kafkaOffsetOf } from './kafka-offset.js';
import { keyText } from './key-text.js';
import { headerOf } from './message-headers.js';
import type { MessageKey } from './message-key.js';

/**
 * The key is the message's own id: `messageId` of RabbitMQ, the header `Nats-Msg-Id` of NATS, and on Kafka
 * `topic-partition-offset` (see {@link kafkaOffset}). Redis, MQTT and TCP have none: the packet identifier of MQTT is
 * used for one message after another.
 */
export function messageId(): MessageKey {
  return (context) => messageIdOf(rpcSource(context));
}

/** `undefined` where the transport has none, or the publisher gave none. */
export function messageIdOf(source: RpcSource): string | undefined {
  switch (source.transport) {
    case 'rabbitmq':
      return keyText(source.message.properties.messageId, 'property "messageId" of a message');
    case 'nats':
      return headerOf(source, 'Nats-Msg-Id');
    case 'kafka':
      return kafkaOffsetOf(source);
    default:
      return undefined;
  }
}
