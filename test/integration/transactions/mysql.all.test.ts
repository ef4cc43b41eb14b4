import { describe, expect, it } from '@jest/globals';
import { createPool, type RowDataPacket } from 'mysql2/promise';
import { findMariaDb } from '../../support/mysql/installations.js';
import { useMysql } from '../../support/mysql/use-mysql.js';
import { mysqlAdapterNames, mysqlAdapters, openOnMysql } from './mysql/adapters.js';
import { describeOnMysql } from './mysql/mysql-suite.js';

for (const name of mysqlAdapterNames) describeOnMysql(name, openOnMysql(name));

const given = findMariaDb() === undefined ? describe.skip : describe;

given('A method that the handler has kept', () => {
  const server = useMysql();

  it('sends nothing behind COMMIT, which the server would commit by itself', async () => {
    const url = await server.newDatabase();
    const observer = createPool(url);
    await observer.query('CREATE TABLE effects (id varchar(64) PRIMARY KEY) ENGINE = InnoDB');
    const opened = await mysqlAdapters.typeorm(url, 1);
    let late: Promise<unknown> | undefined;
    await opened.unitOfWork.run({ isolation: undefined, timeoutMs: 60_000 }, async ({ handle }) => {
      const query = handle.query.bind(handle);
      setImmediate(() => {
        late = query("INSERT INTO effects VALUES ('late')");
        late.catch(() => undefined);
      });
    });
    await expect(late).rejects.toThrow('The transaction is over');
    const [rows] = await observer.query<RowDataPacket[]>('SELECT id FROM effects');
    expect(rows).toEqual([]);
    await opened.close();
    await observer.end();
  });
});
