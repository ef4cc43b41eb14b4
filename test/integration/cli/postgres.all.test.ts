import { describe, expect, it } from '@jest/globals';
import { migrate } from 'nestjs-idempotency/postgres';
import {
  historySql,
  MIGRATIONS,
  migrationSql,
  TableName,
} from '../../support/internals/postgres.js';
import { afterTest } from '../../support/jest/after-test.js';
import type { DatabaseSettings } from '../../support/postgres/new-database.js';
import { startPostgres } from '../../support/postgres/postgres-server.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useServer } from '../../support/servers/use-server.js';
import { userPool } from '../postgres/support/fixture.js';
import { as, diagnose } from './support/diagnosis.js';

describe('On a durable PostgreSQL, the doctor', () => {
  const server = useServer(() => startPostgres({ settings: { fsync: 'on' } }));

  async function migrated(): Promise<string> {
    const url = await server.newDatabase();
    await migrate({ url });
    return url;
  }

  it('has nothing to say', async () => {
    const { complaints, findings } = await diagnose('--postgres', await migrated());
    expect(complaints).toEqual({});
    expect(findings.map(({ check }) => check)).toContain('deletion');
  });

  it('checks the table that it is given', async () => {
    const url = await server.newDatabase();
    await migrate({ url, schema: 'shop', table: 'keys' });
    const found = await diagnose('--postgres', url, '--schema', 'shop', '--table', 'keys');
    expect(found.complaints).toEqual({});
    expect(found.messageOf('rights')).toContain('"shop"."keys"');
    expect((await diagnose('--postgres', url)).complaints).toEqual({ migrations: 'error' });
  });

  it('works without prepared statements, and says what that costs', async () => {
    const found = await diagnose('--postgres', await migrated(), '--no-prepared-statements');
    expect(found.complaints).toEqual({ push: 'warning' });
  });

  it('reports a table without autovacuum', async () => {
    const url = await migrated();
    await userPool(url).query('ALTER TABLE idempotency_records SET (autovacuum_enabled = false)');
    const found = await diagnose('--postgres', url);
    expect(found.complaints).toEqual({ autovacuum: 'warning' });
    expect(found.messageOf('autovacuum')).toContain('RESET (autovacuum_enabled)');
  });

  it('reports a table with more dead rows than live ones', async () => {
    const url = await migrated();
    const pool = userPool(url);
    await pool.query('ALTER TABLE idempotency_records SET (autovacuum_vacuum_threshold = 1000000)');
    await pool.query(
      `INSERT INTO idempotency_records (record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at)
       SELECT int4send(i), 'released', '-', 1, '-', 1, 0, now() + interval '1 hour' FROM generate_series(1, 20000) i`,
    );
    await pool.query('DELETE FROM idempotency_records');
    await pool.query('SELECT pg_stat_force_next_flush()');
    const found = await diagnose('--postgres', url);
    expect(found.complaints).toEqual({ autovacuum: 'warning' });
    expect(found.messageOf('autovacuum')).toContain('does not keep up');
  });

  it('reports records that nothing deletes', async () => {
    const url = await migrated();
    await userPool(url).query(
      `INSERT INTO idempotency_records (record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at)
       VALUES ('\\x01', 'released', '-', 1, '-', 1, 0, now() - interval '2 hours')`,
    );
    expect((await diagnose('--postgres', url)).complaints).toEqual({ deletion: 'warning' });
  });

  it('reports the rights that the user lacks, and writes nothing then', async () => {
    const url = await migrated();
    const pool = userPool(url);
    await pool.query(`CREATE ROLE clerk LOGIN PASSWORD 's3cr3t'`);
    afterTest(() => pool.query('DROP OWNED BY clerk').then(() => pool.query('DROP ROLE clerk')));
    const grant = (rights: string) => pool.query(`GRANT ${rights} TO clerk`);
    await grant('SELECT ON idempotency_records_migrations');
    await grant('SELECT, INSERT ON idempotency_records');
    const found = await diagnose('--postgres', as(url, 'clerk', 's3cr3t'));
    expect(found.complaints).toEqual({ rights: 'error' });
    expect(found.messageOf('rights')).toContain('The user may not UPDATE on ');
    expect((await pool.query('SELECT * FROM idempotency_records')).rows).toEqual([]);
    await grant('UPDATE ON idempotency_records');
    const next = await diagnose('--postgres', as(url, 'clerk', 's3cr3t'));
    expect(next.messageOf('rights')).toContain('The user may not DELETE on ');
    await grant('DELETE ON idempotency_records');
    expect((await diagnose('--postgres', as(url, 'clerk', 's3cr3t'))).complaints).toEqual({});
  });

  it('reports a database that does not exist', async () => {
    const url = Object.assign(new URL(server.url), { pathname: '/nowhere' }).href;
    const found = await diagnose('--postgres', url);
    expect(found.complaints).toEqual({ connection: 'error' });
    expect(found.messageOf('connection')).toContain('Check the name of the database.');
  });
});

describe('On a shared PostgreSQL, the doctor', () => {
  const server = usePostgres();
  /** Of every database of the tests. */
  const SHARED = { durability: 'warning' };

  it('reports migrations that are missing', async () => {
    const url = await server.newDatabase();
    const table = new TableName();
    await userPool(url).query(historySql(table));
    await userPool(url).query(migrationSql(MIGRATIONS[0]!, table));
    const found = await diagnose('--postgres', url);
    expect(found.complaints).toMatchObject({ migrations: 'error' });
    expect(found.messageOf('migrations')).toMatch(/: 2 \(.*npx nestjs-idempotency migrate /);
  });

  it.each<[DatabaseSettings, string, string, string]>([
    [{ synchronous_commit: 'off' }, 'durability', 'warning', 'synchronous_commit is off'],
    [{ default_transaction_isolation: 'serializable' }, 'isolation', 'warning', 'serializable'],
    [{ default_transaction_read_only: 'on' }, 'steps', 'error', 'read-only transaction'],
  ])('reports %j', async (settings, check, verdict, words) => {
    const url = await server.newDatabase();
    await migrate({ url });
    const database = new URL(url).pathname.slice(1);
    for (const [name, value] of Object.entries(settings)) {
      await userPool(url).query(`ALTER DATABASE ${database} SET ${name} = '${value}'`);
    }
    const found = await diagnose('--postgres', url);
    expect(found.complaints).toMatchObject({ ...SHARED, [check]: verdict });
    expect(found.messageOf(check)).toContain(words);
  });
});

describe('On a PostgreSQL that is set up for speed, the doctor', () => {
  const settings = {
    fsync: 'off',
    full_page_writes: 'off',
    autovacuum: 'off',
    max_connections: '10',
    superuser_reserved_connections: '0',
    reserved_connections: '0',
  };
  const server = useServer(() => startPostgres({ settings }));

  it('reports each setting, and the connections', async () => {
    const url = await server.newDatabase();
    await migrate({ url });
    const pool = userPool(url, { max: 7 });
    const clients = await Promise.all(Array.from({ length: 7 }, () => pool.connect()));
    const found = await diagnose('--postgres', url);
    for (const client of clients) client.release();
    expect(found.complaints).toEqual({
      autovacuum: 'warning',
      connections: 'warning',
      durability: 'warning',
    });
    expect(found.messageOf('durability')).toMatch(/fsync is off.*\nfull_page_writes is off/);
    expect(found.messageOf('connections')).toContain('of 10 connections');
  });
});
