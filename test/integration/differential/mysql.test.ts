import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { findMariaDb, unpackNewest } from '../../support/mysql/installations.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { useMysql, type UsedMysql } from '../../support/mysql/use-mysql.js';
import { checkStore } from './check-store.js';
import type { Mutation } from './mutants.js';
import { withMysqlSubject } from './subjects/mysql-subject.js';

/** Of twelve commands on average. */
const runs = isTestAll ? 17_000 : 200;

/** A mistake in a statement, and the text that it replaces. */
const MISTAKES: readonly [name: string, file: string, text: string, mistake: string][] = [
  ['a completion after the retention', 'complete', 'AND expires_at >', 'AND 0 <'],
  ["a completion of another attempt's record", 'complete', 'token = ?', 'token <> ?'],
  [
    'a lease beyond the max execution',
    'begin',
    'DIV 1000 + ?,\n  TIME',
    'DIV 1000 + 5 + ?,\n  TIME',
  ],
  [
    'a write without its version',
    'update',
    'version = LAST_INSERT_ID(?)',
    'version = version + 0 * LAST_INSERT_ID(?)',
  ],
];

const installed = findMariaDb();
const newest = isTestAll ? await unpackNewest('mysql') : undefined;
afterAll(() => newest?.remove());

// Without an installed one, `npm test` has reported what is missing: test/support/provision.
const given = installed === undefined ? describe.skip : describe;
given('the store on MariaDB and the reference state machine', () => {
  describeDifferential(useMysql());
});
for (const installation of newest?.installations ?? []) {
  describe(`the store on ${installation.name} and the reference state machine`, () => {
    describeDifferential(useMysql(installation));
  });
}

function describeDifferential(server: UsedMysql): void {
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    const store = mysqlStore({ url });
    await store.migrate();
    await store.close();
  });

  it('give equal replies and leave equal records for any sequence of commands [P07]', async () => {
    const { coverage } = await withMysqlSubject(url, (subject) => checkStore(subject, { runs }));
    // Rare situations may be missing in so few sequences; differential.test.ts requires each of them.
    expect(Object.keys(coverage.missing(1)).length).toBeLessThan(isTestAll ? 5 : 10);
  }, 1_800_000);

  it.each(isTestAll ? MISTAKES : MISTAKES.slice(0, 1))(
    'differ with %s',
    async (_, file, text, mistake) => {
      let isPlanted = false;
      const mutate: Mutation = (name, statement) => {
        if (name !== file) return statement;
        isPlanted = statement.includes(text);
        return statement.replace(text, mistake);
      };
      const check = withMysqlSubject(
        url,
        (subject) => checkStore(subject, { runs: 5_000 }),
        mutate,
      );
      await expect(check).rejects.toThrow();
      expect(isPlanted).toBe(true);
    },
    300_000,
  );
}
