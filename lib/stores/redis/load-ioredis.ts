import { missingPeer } from '../../core/util/missing-peer.js';
import type { OwnRedisClient } from './binary-client.js';

export type RedisConstructor = new (...args: (string | object)[]) => OwnRedisClient;

/** @throws {@link IdempotencyOptionsError} when ioredis is not installed. */
export async function loadIoredis(): Promise<RedisConstructor> {
  try {
    const { Redis } = await import('ioredis');
    return Redis as never;
  } catch (error) {
    throw missingPeer(error, 'ioredis', 'redisStore opens the connection with');
  }
}
