import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { migrate } from 'nestjs-idempotency/postgres';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { startRedis } from '../../support/redis/redis-server.js';
import { useServer } from '../../support/servers/use-server.js';
import { checkStore } from './check-store.js';
import { LUA_MISTAKES, SQL_MISTAKES } from './mutants.js';
import { withPostgresSubject } from './subjects/postgres-subject.js';
import { redisSubject } from './subjects/redis-subject.js';

describe('the comparison detects [P09]', () => {
  // Its memory is limited.
  const server = useServer(startRedis);
  const postgres = usePostgres();
  let redis: Redis;
  let url: string;

  beforeAll(async () => {
    redis = new Redis(server.url, { maxRetriesPerRequest: 0 });
    url = await postgres.newDatabase();
    await migrate({ url });
  });
  afterAll(() => redis.disconnect());

  it.each(LUA_MISTAKES)(
    '$mistake',
    async ({ objection, ...options }) => {
      const check = checkStore(await redisSubject(redis, options), { runs: 20_000 });
      await expect(check).rejects.toThrow(objection);
    },
    // Some appear in only one of thousands of sequences.
    300_000,
  );

  it.each(SQL_MISTAKES)(
    '$mistake',
    async ({ mutate, objection }) => {
      // The seed is fixed: some mistakes appear in only one of thousands of sequences.
      const extent = { runs: 5_000, seed: 1 };
      const check = withPostgresSubject(url, (subject) => checkStore(subject, extent), mutate);
      await expect(check).rejects.toThrow(objection);
    },
    300_000,
  );
});
