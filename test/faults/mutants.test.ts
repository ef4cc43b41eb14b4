import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { MUTANTS } from './mutants.js';
import { Scene } from './store/support/scene.js';

let redis: RedisServer;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

// That the scenarios have no objection to the scripts as they are is what test/faults/store holds.
describe('A scenario objects to', () => {
  it.each(MUTANTS)('$mistake', async ({ scenario, objection, scripts }) => {
    const scene = new Scene(redis.port, scripts());
    try {
      expect(await scenario(scene)).toContainEqual(expect.stringContaining(objection));
    } finally {
      await scene.admin.config('SET', 'maxmemory', '0');
      await scene.stop();
    }
  });
});
