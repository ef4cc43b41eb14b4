import { beforeAll, describe, expect, it } from '@jest/globals';
import { migrate } from 'nestjs-idempotency/postgres';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { checkStore } from './check-store.js';
import { SQL_MISTAKES } from './mutants.js';
import { withPostgresSubject } from './subjects/postgres-subject.js';

const runs = isTestAll ? 5_000 : 400;

describe.each(postgresServers)('the store on $name and the reference state machine', (version) => {
  const server = usePostgres(version);
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
  });

  it('give equal replies and leave equal records for any sequence of commands [P07]', async () => {
    const { coverage } = await withPostgresSubject(url, (subject) => checkStore(subject, { runs }));
    // Rare situations may be missing in so few sequences; differential.test.ts requires each of them.
    expect(Object.keys(coverage.missing(1)).length).toBeLessThan(5);
  }, 600_000);

  // mutants.all.test.ts runs all mistakes.
  it('differ when a statement contains a planted mistake', async () => {
    const { mutate, objection } = SQL_MISTAKES[0]!;
    const check = withPostgresSubject(url, (subject) => checkStore(subject, { runs }), mutate);
    await expect(check).rejects.toThrow(objection);
  }, 300_000);
});
