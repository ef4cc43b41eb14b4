import { canonicalJson } from '../../core/canonical-json.js';
import { IdempotencyOptionsError } from '../../core/errors.js';

/**
 * Content as it is compared: bytes as they are, all else as canonical JSON.
 *
 * @throws {@link ContentNotComparableError} for what JSON cannot express.
 */
export function bytesOrJson(value: unknown): string | Uint8Array {
  if (value instanceof Promise) {
    throw new IdempotencyOptionsError(
      'The function given as the option "fingerprint" returned a promise: it has to answer at once.',
    );
  }
  return value instanceof Uint8Array ? value : canonicalJson(value);
}
