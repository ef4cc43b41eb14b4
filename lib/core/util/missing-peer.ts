import { types } from 'node:util';
import { IdempotencyOptionsError } from './errors.js';

/**
 * What to throw where an optional peer could not be loaded. Load it by `import('its name')` within a
 * `try`: a bundler follows that where it is installed, and leaves it be where it is not.
 *
 * @param error - what the import was rejected with.
 * @param needs - who needs it for what, the beginning of a sentence.
 * @returns an {@link IdempotencyOptionsError} where it is not installed, otherwise `error` itself.
 */
export function missingPeer(error: unknown, name: string, needs: string): unknown {
  if (!types.isNativeError(error) || !('code' in error)) return error;
  if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'MODULE_NOT_FOUND') return error;
  const message = `${needs} ${name}, which is not installed: npm install ${name}`;
  return new IdempotencyOptionsError(message, { cause: error });
}
