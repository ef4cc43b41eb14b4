import { fail } from '../../../core/util/option-checks.js';
import { rpcSource } from '../rpc-context.js';
import { headerOf } from './message-headers.js';
import type { MessageKey } from './message-key.js';

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
    fail('messageHeader(name)', 'the name of a header', name);
  }
  return (context) => headerOf(rpcSource(context), name);
}
