import { asBuffer } from '../../../core/util/as-buffer.js';
import type { RpcSource } from '../rpc-context.js';
import { keyText, unreadableKey } from './key-text.js';

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
