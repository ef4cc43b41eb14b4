import { createRequire } from 'node:module';
import { types } from 'node:util';
import { IdempotencyOptionsError } from './errors.js';

/**
 * Loads an optional peer, only when it is needed. By `require`, because options are resolved synchronously;
 * the peers that are loaded so are CommonJS.
 *
 * @param needs - who needs it for what, the beginning of a sentence.
 * @param from - where to look for it.
 * @throws {@link IdempotencyOptionsError} when it is not installed.
 */
export function loadPeer(name: string, needs: string, from: string = import.meta.url): unknown {
  try {
    return createRequire(from)(name);
  } catch (error) {
    if (types.isNativeError(error) && 'code' in error && error.code === 'MODULE_NOT_FOUND') {
      const message = `${needs} ${name}, which is not installed: npm install ${name}`;
      throw new IdempotencyOptionsError(message, { cause: error });
    }
    throw error;
  }
}
