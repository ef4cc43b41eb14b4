import type { ExecutionContext } from '@nestjs/common';
import { asBuffer } from '../../../core/util/as-buffer.js';
import { OperationRejectedError } from '../../../core/util/errors.js';
import { throwOptionError } from '../../../core/util/option-checks.js';
import { rpcSource, type RpcSource } from '../source/rpc-context.js';

/**
 * The key is the message's own id: `messageId` of RabbitMQ, the header `Nats-Msg-Id` of NATS, and on Kafka
 * `topic-partition-offset` (see {@link kafkaOffset}). Redis, MQTT and TCP have none: the packet identifier of MQTT is
 * used for one message after another.
 */
export function messageId(): MessageKey {
  return (context) => messageIdOf(rpcSource(context));
}

/** `undefined` where the transport has none, or the publisher gave none. */
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

/**
 * Finds the key of a message: what the option `key` may be, besides a header's name. `undefined` means that the message
 * has none.
 */
export type MessageKey = (context: ExecutionContext) => string | undefined;

/**
 * The key is where a Kafka message stands: `topic-partition-offset`. It recognises what Kafka delivers again. What a
 * producer sent twice stands in two places, and has two keys: for that, let it send a header of its own. A topic that
 * was deleted and created again counts its offsets from zero, so give its consumer another name then.
 */
export function kafkaOffset(): MessageKey {
  return (context) => kafkaOffsetOf(rpcSource(context));
}

/** `undefined` on other transports. */
function kafkaOffsetOf(source: RpcSource): string | undefined {
  if (source.transport !== 'kafka') return undefined;
  // Only the topic may hold hyphens: read from its end, the text can be parted in one way.
  return `${source.topic}-${String(source.partition)}-${source.message.offset}`;
}

/**
 * The key is in a header of the message: RabbitMQ, Kafka, NATS; in a user property of MQTT 5; in the metadata of Nest
 * 12's packets on Redis and TCP. A header that comes twice, or whose value is neither text nor an integer, is refused.
 * Kafka's are an exception: Nest joins those of one name by commas before anybody else sees them.
 *
 * @param name - in any case.
 * @throws {@link IdempotencyOptionsError} when the name is not a text, or empty.
 */
export function messageHeader(name: string): MessageKey {
  if (typeof name !== 'string' || name === '') {
    throwOptionError('messageHeader(name)', 'the name of a header', name);
  }
  return (context) => headerOf(rpcSource(context), name);
}

/** The name of the header where nothing else is configured. */
const DEFAULT_HEADER = 'idempotency-key';

/**
 * Where the key is looked for unless the option `key` is a function: in the header of that name; and where the name was
 * left at its default, and the message has no such header, it is the message's own id (see {@link messageId}).
 *
 * @param headerName - in any case.
 */
export function defaultMessageKey(headerName: string): MessageKey {
  const isDefault = headerName.toLowerCase() === DEFAULT_HEADER;
  return (context) => {
    const source = rpcSource(context);
    return headerOf(source, headerName) ?? (isDefault ? messageIdOf(source) : undefined);
  };
}

/**
 * A key as a message may carry it: text, or an integer, which is the same key as its digits. `undefined` and `null` mean
 * that there is none.
 *
 * @param where - what the value is, in words.
 * @throws {@link OperationRejectedError} (`idempotency_key_invalid`) for anything else: never a guessed key, and never
 * none, for then the message would be handled unprotected where a key is not required.
 */
export function keyText(value: unknown, where: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  const text = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
  if (typeof text !== 'string' || text === '' || text.includes(REPLACEMENT_CHARACTER)) {
    throw unreadableKey(where);
  }
  return text;
}

/** What octets that are no UTF-8 have become on their way: two keys may have become one. */
const REPLACEMENT_CHARACTER = '\ufffd';

/** @param where - see {@link keyText}. */
export function unreadableKey(where: string): OperationRejectedError {
  return new OperationRejectedError(
    `The ${where} cannot be read as an idempotency key: a key is one text in UTF-8 that is not empty, or an integer below 2^53. Let the publisher send it so, or find the key elsewhere by the option "key".`,
    'idempotency_key_invalid',
    undefined,
  );
}

/**
 * The value of a message's header, or of what its transport has in place of headers: user properties of MQTT 5, and on
 * Redis and TCP the metadata of Nest 12's packets.
 *
 * @param name - in any case.
 * @throws {@link OperationRejectedError} where it is there and says no key: it is empty or no text, or there are several.
 */
export function headerOf(source: RpcSource, name: string): string | undefined {
  const wanted = name.toLowerCase();
  const where = `header "${name}" of a message`;
  let values: unknown[] = [];
  for (const [header, value] of headersOf(source)) {
    if (header.toLowerCase() !== wanted) continue;
    // Not by push(...): a list may have more items than a call may have arguments.
    values = values.concat(value);
    // A list is not a key, even if all in it are equal (contract C07).
    if (values.length > 1) throw unreadableKey(where);
  }
  return keyText(decoded(values[0]), where);
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

/** Kafka's headers are bytes, and those of other languages' clients of RabbitMQ may be. */
function decoded(value: unknown): unknown {
  return value instanceof Uint8Array ? asBuffer(value).toString() : value;
}
