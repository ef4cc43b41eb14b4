import type { ExecutionContext } from '@nestjs/common';
import { OperationRejectedError } from '../../core/errors/errors.js';
import { isObject, throwOptionError } from '../../core/options/option-checks.js';
import { asKeyText } from './idempotency-key.js';

/** The names along a dotted path. @throws {@link IdempotencyOptionsError} for another type, or an empty name in it. */
export function pathNames(option: string, path: unknown): string[] {
  const names = typeof path === 'string' ? path.split('.') : [];
  if (names.length === 0 || names.includes('')) {
    throwOptionError(option, 'a dotted path such as "order.id"', path);
  }
  return names;
}

/** The content of a message, the arguments of a GraphQL field, or the body of a request. */
export function payloadOf(context: ExecutionContext): unknown {
  switch (context.getType<string>()) {
    case 'rpc':
      return context.switchToRpc().getData();
    case 'ws':
      return context.switchToWs().getData();
    case 'graphql':
      return context.getArgByIndex(1);
    case 'http':
      return context.switchToHttp().getRequest<{ readonly body?: unknown }>().body;
    default:
      return undefined;
  }
}

/**
 * Finds the key along a path of members that values have themselves, not by their prototype.
 * @param where - what the value is, for an error's message.
 */
export function keyAlong(
  names: readonly string[],
  where: string,
): (context: ExecutionContext) => string | undefined {
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

/**
 * Reads a key: a string, or an integer, which is the same key as its digits. `undefined` and `null` mean that there is
 * none.
 * @param where - what the value is, for an error's message.
 * @throws {@link OperationRejectedError} (`idempotency_key_invalid`) for anything else: without an error, the message
 * would be handled unprotected where a key is not required.
 */
export function keyText(value: unknown, where: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  const text = asKeyText(value);
  if (typeof text !== 'string' || text === '' || text.includes(REPLACEMENT_CHARACTER)) {
    throw unreadableKey(where);
  }
  return text;
}

/** The replacement for bytes that are not UTF-8: two keys may have become one. */
const REPLACEMENT_CHARACTER = '\ufffd';

/** @param where - see {@link keyText}. */
export function unreadableKey(where: string): OperationRejectedError {
  return new OperationRejectedError(
    `The ${where} is not a valid idempotency key: it must be one non-empty UTF-8 string, a number that is an integer below 2^53, or a bigint. Correct the sender, or read the key from elsewhere with the option "key".`,
    'idempotency_key_invalid',
    undefined,
  );
}
