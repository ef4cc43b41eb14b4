import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { createPool, type RowDataPacket } from 'mysql2/promise';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { mysql2UnitOfWork } from 'nestjs-idempotency/mysql2';
import { findMariaDb } from '../../support/mysql/installations.js';
import { startMysql } from '../../support/mysql/mysql-server.js';
import { freePort } from '../../support/servers/free-port.js';
import { beginCommand, completeCommand, leaseOf } from '../../support/stores/commands.js';

const CLIENTS = 8;
/** The server is killed after so many commits. */
const COMMITS = 40;
const TIMEOUT_MS = 30_000;
/** As a server of production: what it has acknowledged is on the disk. */
const settings = { 'innodb-flush-log-at-trx-commit': '1' };

const mariadb = findMariaDb();
const given = mariadb === undefined ? describe.skip : describe;

given('A server that is killed in the middle of transactions', () => {
  it('has both of each, record and effect, or none, and all that it acknowledged', async () => {
    const place = {
      dir: mkdtempSync(join(tmpdir(), 'idempotency-crash-')),
      port: await freePort(),
    };
    let server = await startMysql(mariadb!, { ...place, settings });
    const url = await server.newDatabase();
    const pool = createPool({ uri: url, connectionLimit: CLIENTS });
    const store = mysqlStore({ url });
    const unitOfWork = mysql2UnitOfWork(pool);
    try {
      await store.migrate();
      await pool.query('CREATE TABLE effects (record_key varbinary(64) NOT NULL) ENGINE = InnoDB');
      const acknowledged: string[] = [];
      let isDead = false;
      const transact = async () => {
        while (!isDead) {
          const command = beginCommand({ timeoutMs: TIMEOUT_MS });
          const { fence } = (await store.begin(command)) as { fence: number };
          const lease = leaseOf(command, fence);
          const key = Buffer.from(command.recordKey, 'base64url');
          await unitOfWork.run({ isolation: undefined, timeoutMs: TIMEOUT_MS }, async (open) => {
            await store.transactional.lock(open, lease, { maxExecutionMs: TIMEOUT_MS });
            await open.handle.execute('INSERT INTO effects VALUES (?)', [key]);
            await store.transactional.complete(open, lease, completeCommand());
          });
          acknowledged.push(key.toString('hex'));
          if (acknowledged.length === COMMITS) {
            isDead = true;
            server.kill('SIGKILL');
          }
        }
      };
      const ended = await Promise.allSettled(Array.from({ length: CLIENTS }, transact));
      // Whoever was under way has failed, and none of them hangs.
      expect(ended.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0);
      await server.stop();
      server = await startMysql(mariadb!, { ...place, settings });
      const keysOf = async (text: string) => {
        const [rows] = await pool.query<RowDataPacket[]>(text);
        return rows.map(({ k }) => String(k).toLowerCase()).sort();
      };
      const effects = await keysOf('SELECT HEX(record_key) AS k FROM effects');
      const completed =
        "SELECT HEX(record_key) AS k FROM idempotency_records WHERE state = 'completed'";
      expect(await keysOf(completed)).toEqual(effects);
      expect(effects).toEqual(expect.arrayContaining(acknowledged));
      expect(await keysOf('SELECT HEX(record_key) AS k FROM idempotency_records_locks')).toEqual(
        [],
      );
    } finally {
      await store.close();
      await pool.end();
      await server.stop();
      rmSync(place.dir, { recursive: true, force: true });
    }
  }, 240_000);
});
