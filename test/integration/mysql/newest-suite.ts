import { afterAll, describe, it } from '@jest/globals';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { MysqlHarness } from '../../conformance/mysql-under-test.js';
import { unpackNewest, type MysqlInstallation } from '../../support/mysql/installations.js';
import { useMysql } from '../../support/mysql/use-mysql.js';
import { describeMysqlStore } from './mysql-suite.js';

/** Suite and conformance kit on the server that Debian's archive has now; it is left out by name where that has none. */
export async function describeNewest(kind: MysqlInstallation['kind']): Promise<void> {
  const newest = await unpackNewest(kind);
  afterAll(() => newest.remove());
  for (const installation of newest.installations) {
    describe(`the store on ${installation.name}`, () => {
      describeMysqlStore(useMysql(installation));
      const harness = new MysqlHarness(installation.name, installation);
      describeStoreConformance({ describe, it }, harness.underTest);
      afterAll(() => harness.close());
    });
  }
  if (newest.installations.length === 0) it.skip(`needs Debian's newest ${kind}`, () => undefined);
}
