import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from '@jest/globals';
import { RestartableRedis } from '../../../integration/redis/support/restartable-redis.js';
import { until } from '../../../integration/redis/support/until.js';
import { DrivenTime } from './driven-time.js';
import { Scene } from './scene.js';

/** Every write is in the file before it is answered. */
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always'];

export interface MortalScene {
  readonly scene: Scene;
  /** Kills the server as `kill -9` does. */
  readonly die: () => Promise<void>;
  /** Starts it again and waits until it answers. */
  readonly comeBack: () => Promise<void>;
}

const ending: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

/** A scene whose Redis can die and come back, with its records or, `ephemeral`, without them. */
export async function mortalScene(records: 'durable' | 'ephemeral'): Promise<MortalScene> {
  const time = new DrivenTime();
  time.start();
  const redis = await RestartableRedis.onFreePort(time.env);
  const dir = mkdtempSync(join(tmpdir(), 'idempotency-mortal-'));
  const args = ['--dir', dir, ...(records === 'durable' ? DURABLE : [])];
  redis.start(...args);
  const scene = new Scene(redis.port, { time });
  const answers = async () => (await scene.admin.ping().catch(() => undefined)) === 'PONG';
  ending.push(
    async () => {
      rmSync(dir, { recursive: true, force: true });
      time.remove();
    },
    () => redis.stop(),
    async () => {
      await scene.stop();
      time.stop();
    },
  );
  await until(answers);
  return {
    scene,
    die: () => redis.die(),
    comeBack: async () => {
      redis.start(...args);
      await until(answers);
    },
  };
}
