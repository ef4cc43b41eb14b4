import { afterAll, describe, it } from '@jest/globals';
import { describeStoreConformance } from 'nestjs-idempotency/testing';
import { memoryUnderTest } from './memory-under-test.js';
import { postgresOnItsOwnClock, postgresUnderTest, stopPostgres } from './postgres-under-test.js';
import { redisOnItsOwnClock, redisUnderTest, stopRedis } from './redis-under-test.js';

const STORES = [
  memoryUnderTest,
  redisUnderTest,
  redisOnItsOwnClock,
  postgresUnderTest,
  postgresOnItsOwnClock,
];

for (const store of STORES) describeStoreConformance({ describe, it }, store);

afterAll(() => Promise.all([stopRedis(), stopPostgres()]));
