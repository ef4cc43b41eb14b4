import { OperationRejectedError } from '../../core/util/errors.js';

/** @param remedy - what to do about it, a sentence. */
export function keyMissing(operation: string, remedy: string): OperationRejectedError {
  return new OperationRejectedError(
    `${operation} was asked for without an idempotency key. ${remedy}`,
    'idempotency_key_missing',
    undefined,
  );
}

export function keyInvalid(operation: string, maxKeyLength: number): OperationRejectedError {
  return new OperationRejectedError(
    `The idempotency key that came for ${operation} is no text of 1 to ${String(maxKeyLength)} characters.`,
    'idempotency_key_invalid',
    undefined,
  );
}

export function callerUnknown(operation: string, remedy: string): OperationRejectedError {
  return new OperationRejectedError(
    `Nobody can say whose idempotency key came for ${operation}. ${remedy}`,
    'idempotency_caller_unknown',
    undefined,
  );
}
