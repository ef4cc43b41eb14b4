import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import { startRedis, type RedisServer } from '../../../support/redis-server.js';
import { Scene } from './scene.js';

export interface UsedScene {
  /** Anew for each test. */
  readonly scene: Scene;
  readonly redis: RedisServer;
}

/** One redis-server for the whole test file, and for each test its own workers and ledger. */
export function useScene(...args: string[]): UsedScene {
  let redis: RedisServer;
  let scene: Scene;
  beforeAll(async () => {
    redis = await startRedis({ args });
  });
  beforeEach(() => {
    scene = new Scene(redis.port);
  });
  afterEach(() => scene.stop());
  afterAll(() => redis.stop());
  return {
    get scene() {
      return scene;
    },
    get redis() {
      return redis;
    },
  };
}
