import { expect } from '@jest/globals';
import { OperationRejectedError } from '../../../support/internals/core.js';

/** Expects that no key can be read, and that the error does not contain the value in its place. */
export function expectUnreadable(find: () => unknown, secret?: string): void {
  let thrown: unknown;
  try {
    thrown = { found: find() };
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(OperationRejectedError);
  expect(thrown).toMatchObject({ code: 'idempotency_key_invalid', retryable: false });
  if (secret !== undefined) expect((thrown as Error).message).not.toContain(secret);
}
