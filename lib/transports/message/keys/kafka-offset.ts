import { rpcSource, type RpcSource } from '../rpc-context.js';
import type { MessageKey } from './message-key.js';

/**
 * The key is where a Kafka message stands: `topic-partition-offset`. It recognises what Kafka delivers again. What a
 * producer sent twice stands in two places, and has two keys: for that, let it send a header of its own. A topic that
 * was deleted and created again counts its offsets from zero, so give its consumer another name then.
 */
export function kafkaOffset(): MessageKey {
  return (context) => kafkaOffsetOf(rpcSource(context));
}

/** `undefined` on other transports. */
export function kafkaOffsetOf(source: RpcSource): string | undefined {
  if (source.transport !== 'kafka') return undefined;
  // Only the topic may hold hyphens: read from its end, the text can be parted in one way.
  return `${source.topic}-${String(source.partition)}-${source.message.offset}`;
}
