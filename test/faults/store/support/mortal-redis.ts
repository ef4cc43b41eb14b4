import { afterTest } from '../../../support/jest/after-test.js';
import { until } from '../../../support/waiting/until.js';
import { RedisNode } from '../../../support/redis/redis-node.js';
import { DrivenTime } from '../../../support/clocks/driven-time.js';
import { Scene } from './scene.js';

/** Every write is in the file before its reply. */
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always'];

export interface MortalScene {
  readonly scene: Scene;
  /** Kills the server as `kill -9` does. */
  readonly die: () => Promise<void>;
  /** Starts it again and waits until it answers. */
  readonly comeBack: () => Promise<void>;
}

/** A scene whose Redis can die and restart, with its records or, if `ephemeral`, without them. */
export async function mortalScene(records: 'durable' | 'ephemeral'): Promise<MortalScene> {
  const time = new DrivenTime();
  time.start();
  const redis = await RedisNode.start({
    env: time.env,
    args: records === 'durable' ? DURABLE : [],
  });
  const scene = new Scene(redis.port, { time });
  const responses = async () => (await scene.admin.ping().catch(() => undefined)) === 'PONG';
  afterTest(async () => {
    await scene.stop();
    time.stop();
    await redis.stop();
    time.remove();
  });
  await until(responses);
  return {
    scene,
    die: () => redis.kill(),
    comeBack: async () => {
      await redis.start();
      await until(responses);
    },
  };
}
