import { afterAll, describe, it } from '@jest/globals';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { postgresServers } from '../support/postgres/postgres-servers.js';
import { isTestAll } from '../support/jest/test-all.js';
import { describeSqlite } from '../support/sqlite/sqlite-file.js';
import { memoryUnderTest } from './memory-under-test.js';
import { PostgresHarness } from './postgres-under-test.js';
import {
  redisOnItsOwnClock,
  redisOnOwnConnection,
  redisUnderTest,
  redisWithJournal,
  redisWithLargeRecords,
  redisWithoutOwnCommands,
} from './redis-under-test.js';
import { sqliteUnderTest } from './sqlite-under-test.js';

const postgres = postgresServers.map((version) => new PostgresHarness(version));

// The differential tests check the scripts and statements more strictly than the kit: one clock is enough on a push.
const STORES = isTestAll
  ? [
      redisOnItsOwnClock,
      redisWithoutOwnCommands,
      redisWithLargeRecords,
      redisWithJournal,
      ...postgres.flatMap((each) => [each.underTest, each.onItsOwnClock, each.withJournal]),
    ]
  : [
      ...[memoryUnderTest, redisUnderTest, redisOnOwnConnection],
      ...postgres.map(({ underTest }) => underTest),
    ];

for (const store of STORES) describeStoreConformance({ describe, it }, store);
describeStoreConformance({ describe: describeSqlite, it }, sqliteUnderTest);

afterAll(() => Promise.all(postgres.map((harness) => harness.close())));
