import { keyText, unreadableKey } from './key-text.js';
import type { MessageKey } from './message-key.js';
import { payloadOf } from './payload-of.js';
import { pathNames } from './payload-path.js';

/**
 * The key is a field of the payload: a message's, a WebSocket's message's, the arguments' of a GraphQL field, a
 * request's body. It has to be text or an integer; a path does not lead through arrays. Where the field is not there, or
 * `null`, there is no key.
 *
 * @param path - dotted: `order.id`.
 * @throws {@link IdempotencyOptionsError} when it is not a dotted path.
 */
export function payloadField(path: string): MessageKey {
  const names = pathNames('payloadField(path)', path);
  const where = `field "${path}" of a payload`;
  return (context) => {
    let value = payloadOf(context);
    for (const name of names) {
      if (Array.isArray(value)) throw unreadableKey(where);
      if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
      value = value[name];
    }
    return keyText(value, where);
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
