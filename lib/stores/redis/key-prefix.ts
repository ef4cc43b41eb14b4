import { IdempotencyOptionsError } from '../../core/util/errors.js';

const DEFAULT_KEY_PREFIX = 'idem';

/** Printable ASCII: no space, and no braces, which would give all records one slot of a cluster. */
const ALLOWED = /^[!-z|~]{1,64}$/;

export function checkedKeyPrefix(keyPrefix: unknown = DEFAULT_KEY_PREFIX): string {
  if (typeof keyPrefix !== 'string' || !ALLOWED.test(keyPrefix)) {
    throw new IdempotencyOptionsError(
      `keyPrefix must be 1 to 64 printable ASCII characters without spaces and braces, not ${JSON.stringify(keyPrefix)}.`,
    );
  }
  return keyPrefix;
}
