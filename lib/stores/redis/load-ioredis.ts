import { importPeer } from '../../core/import-peer.js';
import type { OwnRedisClient } from './binary-client.js';

export type RedisConstructor = new (...args: (string | object)[]) => OwnRedisClient;

/** @throws {@link IdempotencyOptionsError} when ioredis is not installed. */
export async function loadIoredis(
  load: () => Promise<unknown> = () => import('ioredis'),
): Promise<RedisConstructor> {
  const loaded = await importPeer('ioredis', 'redisStore opens the connection with', load);
  return (loaded as { readonly Redis: RedisConstructor }).Redis;
}
