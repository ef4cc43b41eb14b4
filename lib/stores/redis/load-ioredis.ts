import { loadPeer } from '../../core/load-peer.js';
import type { OwnRedisClient } from './binary-client.js';

export type RedisConstructor = new (...args: (string | object)[]) => OwnRedisClient;

/** @throws {@link IdempotencyOptionsError} when ioredis is not installed where `from` looks for it. */
export function loadIoredis(from?: string): RedisConstructor {
  const needs = 'redisStore opens the connection with';
  const { Redis } = loadPeer('ioredis', needs, from) as { Redis: RedisConstructor };
  return Redis;
}
