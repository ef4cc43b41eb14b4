import { OperationRejectedError } from '../../../core/util/errors.js';

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
