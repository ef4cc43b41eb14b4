import { afterEach, beforeEach } from '@jest/globals';
import { startRedis, type RedisServer } from '../../../support/redis/redis-server.js';
import { useServer } from '../../../support/servers/use-server.js';
import { DrivenTime } from '../../../support/clocks/driven-time.js';
import { Scene } from './scene.js';

export interface UsedScene {
  /** New for each test. */
  readonly scene: Scene;
  readonly redis: RedisServer;
}

/** One redis-server for the whole test file, and for each test its own workers and ledger, in driven time. */
export function useScene(...args: string[]): UsedScene {
  let scene: Scene;
  const time = useServer(
    () => new DrivenTime(),
    (it) => it.remove(),
  );
  const redis = useServer(() => startRedis({ args, env: time.env }));
  beforeEach(() => {
    time.start();
    scene = new Scene(redis.port, { time });
  });
  afterEach(async () => {
    await scene.stop();
    time.stop();
  });
  return {
    get scene() {
      return scene;
    },
    get redis() {
      return redis;
    },
  };
}
