import { afterAll, describe, it } from '@jest/globals';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { MysqlHarness } from '../../conformance/mysql-under-test.js';
import { findMariaDb, unpackNewest } from '../../support/mysql/installations.js';
import { useMysql } from '../../support/mysql/use-mysql.js';
import { describeMysqlStore } from './mysql-suite.js';

const newest = await unpackNewest();
const installed = findMariaDb();
const all = [...(installed === undefined ? [] : [installed]), ...newest.installations];

for (const installation of all) {
  describe(`the store on ${installation.name}`, () => {
    describeMysqlStore(useMysql(installation));
    const harness = new MysqlHarness(installation.name, installation);
    describeStoreConformance({ describe, it }, harness.underTest);
    afterAll(() => harness.close());
  });
}

afterAll(() => newest.remove());
