import { createRequire } from 'node:module';
import { types } from 'node:util';
import { IdempotencyOptionsError } from '../../core/errors.js';
import type { OwnRedisClient } from './binary-client.js';

export type RedisConstructor = new (...args: (string | object)[]) => OwnRedisClient;

/**
 * Loads the optional peer, only when a connection is to be opened. By `require`, because the factory is
 * synchronous; ioredis 5 and 6 are CommonJS.
 *
 * @param from where to look for it.
 * @throws {@link IdempotencyOptionsError} when it is not installed.
 */
export function loadIoredis(from: string = import.meta.url): RedisConstructor {
  try {
    const { Redis } = createRequire(from)('ioredis') as { Redis: RedisConstructor };
    return Redis;
  } catch (error) {
    if (types.isNativeError(error) && 'code' in error && error.code === 'MODULE_NOT_FOUND') {
      throw new IdempotencyOptionsError(
        'redisStore opens the connection with ioredis, which is not installed: npm install ioredis',
        { cause: error },
      );
    }
    throw error;
  }
}
