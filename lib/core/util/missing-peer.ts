import { types } from 'node:util';
import { IdempotencyOptionsError } from './errors.js';

/**
 * The error to throw when an optional peer cannot be loaded. Load the peer by `import('its name')` within a `try`:
 * bundlers include it if it is installed, and ignore it otherwise.
 *
 * @param error - the rejection of the import.
 * @param needs - what needs the peer, and why: the beginning of a sentence.
 * @returns an {@link IdempotencyOptionsError} if the peer is not installed, otherwise `error`.
 */
export function missingPeer(error: unknown, name: string, needs: string): unknown {
  if (!types.isNativeError(error) || !('code' in error)) return error;
  if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'MODULE_NOT_FOUND') return error;
  const message = `${needs} ${name}, which is not installed: npm install ${name}`;
  return new IdempotencyOptionsError(message, { cause: error });
}
