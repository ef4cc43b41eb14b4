import type { ExecutionContext } from '@nestjs/common';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { throwOptionError } from '../../../core/options/option-checks.js';
import { keyText, unreadableKey } from '../../common/key-path.js';
import { rpcSource, type RpcSource } from '../source/rpc-context.js';

/**
 * Uses the message's own id as the key: `messageId` of RabbitMQ, the header `Nats-Msg-Id` of NATS, and on Kafka
 * `topic-partition-offset` (see {@link kafkaOffset}). Redis, MQTT and TCP have none: MQTT reuses packet identifiers.
 */
export function messageId(): MessageKey {
  return (context) => messageIdOf(rpcSource(context));
}

/** `undefined` where the transport has none, or the publisher set none. */
function messageIdOf(source: RpcSource): string | undefined {
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

/** Finds a message's key, for the option `key`; `undefined` means that it has none. */
export type MessageKey = (context: ExecutionContext) => string | undefined;

/**
 * Uses the position of a Kafka message as the key: `topic-partition-offset`. This recognises redeliveries. A message that
 * a producer sent twice has two positions and two keys: let the producer set a header instead. Offsets of a topic that
 * was deleted and created anew start at zero: give its consumer another name then.
 */
export function kafkaOffset(): MessageKey {
  return (context) => kafkaOffsetOf(rpcSource(context));
}

/** `undefined` on other transports. */
function kafkaOffsetOf(source: RpcSource): string | undefined {
  if (source.transport !== 'kafka') return undefined;
  const { topic, partition, message } = source;
  // The text of a missing one would be the key of all messages.
  if (isMissing(partition) || isMissing(message.offset)) {
    throw unreadableKey('partition or offset of a message');
  }
  // Unambiguous, as only the topic may contain hyphens.
  return `${topic}-${String(partition)}-${message.offset}`;
}

function isMissing(value: unknown): boolean {
  return value === undefined || value === null;
}

/**
 * Uses a header of the message as the key, case-insensitive (RabbitMQ, Kafka, NATS), a user property (MQTT 5) or a
 * member of the metadata of Nest 12's packets (Redis, TCP). A value that is neither a string nor an integer is
 * rejected; so is a repeated header, except on Kafka, where Nest joins its values with commas.
 * @throws {@link IdempotencyOptionsError} when the name is empty or not a string.
 */
export function messageHeader(name: string): MessageKey {
  if (typeof name !== 'string' || name === '') {
    throwOptionError('messageHeader(name)', 'the name of a header', name);
  }
  return (context) => headerOf(rpcSource(context), name);
}

/** The default of the option `key`, in lower case. */
const DEFAULT_HEADER = 'idempotency-key';

/**
 * Reads the key where the option `key` is not a function: from the header of that name, case-insensitive. With the
 * default name, a message without this header has its own id as the key (see {@link messageId}).
 */
export function defaultMessageKey(headerName: string): MessageKey {
  const isDefault = headerName.toLowerCase() === DEFAULT_HEADER;
  return (context) => {
    const source = rpcSource(context);
    return headerOf(source, headerName) ?? (isDefault ? messageIdOf(source) : undefined);
  };
}

/**
 * The key in a message's header, case-insensitive, or in what its transport has instead: user properties of MQTT 5, and
 * on Redis and TCP the metadata of Nest 12's packets.
 * @throws {@link OperationRejectedError} for a header that is repeated or not a key.
 */
export function headerOf(source: RpcSource, name: string): string | undefined {
  const wanted = name.toLowerCase();
  const where = `header "${name}" of a message`;
  let values: unknown[] = [];
  for (const [header, value] of headersOf(source)) {
    if (header.toLowerCase() !== wanted) continue;
    // Not push(...): a list may have more items than a call may have arguments.
    values = values.concat(value);
    // A list is not a key, even if all its items are equal (contract C07).
    if (values.length > 1) throw unreadableKey(where);
  }
  return keyText(decoded(values[0]), where);
}

export function headerNames(source: RpcSource): string[] {
  return Array.from(headersOf(source), ([name]) => name);
}

function headersOf(source: RpcSource): Iterable<readonly [string, unknown]> {
  switch (source.transport) {
    case 'rabbitmq':
      return members(source.message.properties.headers);
    case 'kafka':
      return members(source.message.headers);
    case 'nats':
      return source.headers ?? [];
    case 'mqtt':
      return members(source.packet?.properties?.userProperties);
    case 'redis':
    case 'tcp':
      return members(source.metadata);
    case 'other':
      return [];
  }
}

function members(headers: unknown): [string, unknown][] {
  return typeof headers === 'object' && headers !== null ? Object.entries(headers) : [];
}

/** Headers are bytes on Kafka, and may be on RabbitMQ, from clients in other languages. */
function decoded(value: unknown): unknown {
  return value instanceof Uint8Array ? asBuffer(value).toString() : value;
}
