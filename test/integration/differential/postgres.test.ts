import { beforeAll, describe, expect, it } from '@jest/globals';
import { migrate } from 'nestjs-idempotency/postgres';
import { postgresServers } from '../../support/postgres-servers.js';
import { isTestAll } from '../../support/test-all.js';
import { usePostgres } from '../../support/use-postgres.js';
import { checkStore } from './check-store.js';
import { SQL_MISTAKES } from './mutants.js';
import { withPostgresSubject } from './postgres-subject.js';

const runs = isTestAll ? 5_000 : 400;

describe.each(postgresServers)('the store on $name and the reference state machine', (version) => {
  const server = usePostgres(version);
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
  });

  it('reply alike and leave the same record, whatever comes in whatever order', async () => {
    const { coverage } = await withPostgresSubject(url, (subject) => checkStore(subject, { runs }));
    // What occurs less than once in a hundred sequences may fail to come up here; differential.test.ts has its floor.
    expect(Object.keys(coverage.missing(1)).length).toBeLessThan(5);
  }, 600_000);

  // All of the mistakes: mutants.all.test.ts.
  it('are seen to differ where there is a mistake in a statement', async () => {
    const { mutate, objection } = SQL_MISTAKES[0]!;
    const check = withPostgresSubject(url, (subject) => checkStore(subject, { runs }), mutate);
    await expect(check).rejects.toThrow(objection);
  }, 300_000);
});
