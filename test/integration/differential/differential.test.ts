import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { isTestAll } from '../../support/jest/test-all.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { useServer } from '../../support/servers/use-server.js';
import { checkStore } from './check-store.js';
import { LUA_MISTAKES } from './mutants.js';
import { redisSubject } from './subjects/redis-subject.js';

const runs = isTestAll ? 20_000 : 5_000;

const server = useRedis();

const redis = useServer(
  () => new Redis(server.url, { maxRetriesPerRequest: 0 }),
  (it) => it.disconnect(),
);

describe('the scripts and the reference state machine', () => {
  it.each([
    ['with flags', false],
    ['without flags, as for Redis 6.2', true],
  ])(
    'give equal replies and leave equal records for any sequence of commands: %s',
    async (_, isWithoutFlags) => {
      const subject = await redisSubject(redis, { isWithoutFlags });
      const { coverage, checked } = await checkStore(subject, { runs });
      expect(coverage.missing(Math.floor(checked / 200))).toEqual({});
    },
    600_000,
  );

  // mutants.all.test.ts runs all mistakes.
  it('differ when a script contains a planted mistake', async () => {
    const { mutate, objection } = LUA_MISTAKES[0]!;
    const check = checkStore(await redisSubject(redis, { mutate }), { runs });
    await expect(check).rejects.toThrow(objection);
  });
});
