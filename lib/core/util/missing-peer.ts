import { types } from 'node:util';
import { IdempotencyOptionsError } from '../errors/errors.js';

/**
 * The error to throw if an optional peer cannot be loaded: an {@link IdempotencyOptionsError} if it is not installed,
 * otherwise `error`. Load it by `requirePeer('its name') ?? (await import('its name'))` within a `try`: bundlers then
 * ignore a missing one.
 * @param needs - what needs the peer, and why: the beginning of a sentence.
 */
export function missingPeer(error: unknown, name: string, needs: string): unknown {
  if (!types.isNativeError(error) || !('code' in error)) return error;
  if (error.code !== 'ERR_MODULE_NOT_FOUND' && error.code !== 'MODULE_NOT_FOUND') return error;
  const message = `${needs} ${name}, which is not installed: npm install ${name}`;
  return new IdempotencyOptionsError(message, { cause: error });
}
