import { afterAll, describe, it } from '@jest/globals';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { postgresServers } from '../support/postgres/postgres-servers.js';
import { isTestAll } from '../support/jest/test-all.js';
import { findMariaDb } from '../support/mysql/installations.js';
import { describeSqlite } from '../support/sqlite/sqlite-file.js';
import { memoryUnderTest } from './memory-under-test.js';
import { MysqlHarness } from './mysql-under-test.js';
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

const mariadb = findMariaDb();
// Without one, `npm test` has reported what is missing: test/support/provision.
const mysql = mariadb === undefined ? [] : [new MysqlHarness(mariadb.name)];

// The differential tests check the scripts and statements more strictly than the kit: one clock is enough on a push.
const STORES = isTestAll
  ? [
      redisOnItsOwnClock,
      redisWithoutOwnCommands,
      redisWithLargeRecords,
      redisWithJournal,
      ...postgres.flatMap((each) => [each.underTest, each.onItsOwnClock, each.withJournal]),
      ...mysql.flatMap((each) => [each.underTest, each.onItsOwnClock]),
    ]
  : [
      ...[memoryUnderTest, redisUnderTest, redisOnOwnConnection],
      ...[...postgres, ...mysql].map(({ underTest }) => underTest),
    ];

for (const store of STORES) describeStoreConformance({ describe, it }, store);
describeStoreConformance({ describe: describeSqlite, it }, sqliteUnderTest);

afterAll(() => Promise.all([...postgres, ...mysql].map((harness) => harness.close())));
