import { afterEach, expect, it, jest } from '@jest/globals';
import { isTestAll } from '../../support/jest/test-all.js';
import { nodeSqlite } from '../../support/sqlite/node-sqlite.js';
import { describeSqlite } from '../../support/sqlite/sqlite-file.js';
import { checkStore } from './check-store.js';
import { SQLITE_MISTAKES } from './mutants.js';
import { withSqliteSubject } from './subjects/sqlite-subject.js';

const runs = isTestAll ? 20_000 : 400;
const mistakes = isTestAll ? SQLITE_MISTAKES : SQLITE_MISTAKES.slice(0, 1);

describeSqlite('the store on SQLite and the reference state machine', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  it('give equal replies and leave equal records for any sequence of commands [P07]', async () => {
    const { coverage } = await withSqliteSubject((subject) => checkStore(subject, { runs }));
    // Rare situations may be missing in so few sequences; differential.test.ts requires each of them.
    expect(Object.keys(coverage.missing(1)).length).toBeLessThan(5);
  }, 600_000);

  it.each(mistakes)(
    'differ when $mistake',
    async ({ mutate, objection }) => {
      const { prototype } = nodeSqlite!.DatabaseSync;
      const prepare = Reflect.get(prototype, 'prepare') as (sql: string) => never;
      jest.spyOn(prototype, 'prepare').mockImplementation(function (
        this: typeof prototype,
        sql: string,
      ) {
        return prepare.call(this, mutate('sqlite', sql));
      });
      const check = withSqliteSubject((subject) => checkStore(subject, { runs: 2_000, seed: 1 }));
      await expect(check).rejects.toThrow(objection);
    },
    300_000,
  );
});
