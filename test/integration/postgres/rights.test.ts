import { beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyMeter, IdempotencyService } from 'nestjs-idempotency';
import { migrate, postgresStore, type PostgresStoreOptions } from 'nestjs-idempotency/postgres';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { userPool } from './support/fixture.js';

const TABLE = 'idempotency_records';
const SECURED = `ALTER TABLE ${TABLE} ENABLE ROW LEVEL SECURITY`;
const POLICY = `CREATE POLICY p ON ${TABLE}`;
const EVERY_ROW = 'USING (true) WITH CHECK (true)';

const server = usePostgres();
let url: string;
let users = 0;

beforeAll(async () => {
  url = await server.newDatabase();
  await migrate({ url });
});

/**
 * Prepares a table and a user of its own.
 *
 * @param rights - on the table, which stands for TABLE in them.
 */
async function prepare(rights: string, statements: readonly string[] = []) {
  const database = await server.newDatabase();
  await migrate({ url: database });
  const admin = userPool(database);
  users += 1;
  const user = `app_${String(process.pid)}_${String(users)}`;
  await admin.query(`CREATE ROLE ${user} LOGIN PASSWORD 'pw'`);
  // Roles belong to the server, which other files use, too.
  afterTest(async () => {
    await admin.query(`DROP OWNED BY ${user}`);
    await admin.query(`DROP ROLE ${user}`);
  });
  await admin.query(`GRANT SELECT ON ${TABLE}_migrations TO ${user}`);
  if (rights !== '') await admin.query(`GRANT ${rights} ON ${TABLE} TO ${user}`);
  for (const statement of statements) await admin.query(statement.replaceAll('USER', user));
  const address = Object.assign(new URL(database), { username: user, password: 'pw' }).href;
  return { admin, address };
}

async function start(address: string, options: Partial<PostgresStoreOptions> = {}) {
  const store = postgresStore({ url: address, ...options } as PostgresStoreOptions);
  const { nest, log } = await callingApp({}, { store });
  afterTest(() => nest.close());
  const service = nest.get(IdempotencyService, { strict: false });
  const run = (key: string) => service.run({ operation: 'pay', key, scope: 'alice' }, () => 'paid');
  return { nest, store, log, run };
}

const ALL = 'SELECT, INSERT, UPDATE, DELETE';

describe('The start stops', () => {
  it.each<[string, string, string[], RegExp]>([
    [
      'with SELECT only',
      'SELECT',
      [],
      /may not INSERT, UPDATE, DELETE on .* GRANT INSERT, UPDATE, DELETE ON/,
    ],
    ['without any right', '', [], /may not SELECT, INSERT, UPDATE, DELETE/],
    ['without UPDATE', 'SELECT, INSERT, DELETE', [], /may not UPDATE on/],
    [
      'without DELETE',
      'SELECT, INSERT, UPDATE',
      [],
      /may not DELETE on .* Or set deleteExpired: false/,
    ],
    [
      'with UPDATE of some columns only',
      'SELECT, INSERT, DELETE, UPDATE (state)',
      [],
      /permission denied for table idempotency_records\. The user requires SELECT, INSERT, UPDATE and DELETE/,
    ],
    [
      'without the schema',
      ALL,
      ['REVOKE USAGE ON SCHEMA public FROM public'],
      /GRANT USAGE ON SCHEMA "public"/,
    ],
    [
      'with row level security and no policy',
      ALL,
      [SECURED],
      /no policy by which the user may SELECT, INSERT, UPDATE, DELETE/,
    ],
    [
      'with row level security and policies of another user',
      ALL,
      [SECURED, `${POLICY} TO postgres ${EVERY_ROW}`],
      /no policy by which the user may SELECT/,
    ],
    [
      'with row level security and no policy for UPDATE',
      ALL,
      [
        SECURED,
        `${POLICY} FOR SELECT TO USER USING (true)`,
        `CREATE POLICY q ON ${TABLE} FOR INSERT TO USER WITH CHECK (true)`,
        `CREATE POLICY r ON ${TABLE} FOR DELETE TO USER USING (true)`,
      ],
      /no policy by which the user may UPDATE\. Let the user read and write every row: CREATE POLICY/,
    ],
    [
      'with row level security whose policy lets no row be written',
      ALL,
      [SECURED, `${POLICY} TO USER USING (true) WITH CHECK (false)`],
      /row-level security.* CREATE POLICY/,
    ],
    [
      'with row level security whose policy hides rows from UPDATE',
      ALL,
      [
        SECURED,
        `${POLICY} FOR SELECT TO USER USING (true)`,
        `CREATE POLICY q ON ${TABLE} FOR INSERT TO USER WITH CHECK (true)`,
        `CREATE POLICY r ON ${TABLE} FOR UPDATE TO USER USING (false)`,
        `CREATE POLICY s ON ${TABLE} FOR DELETE TO USER USING (true)`,
      ],
      /changes no row of the records, without an error\. Row level security/,
    ],
    [
      'with a trigger that swallows UPDATE',
      ALL,
      [
        'CREATE FUNCTION swallow() RETURNS trigger AS $$ BEGIN RETURN NULL; END $$ LANGUAGE plpgsql',
        `CREATE TRIGGER t BEFORE UPDATE ON ${TABLE} FOR EACH ROW EXECUTE FUNCTION swallow()`,
      ],
      /changes no row of the records, without an error.*a trigger of the table/,
    ],
  ])('%s', async (_, rights, statements, message) => {
    const { address } = await prepare(rights, statements);
    const error = await rejection(start(address));
    expect(error.code).toBe('idempotency_store_misconfigured');
    expect(error.message).toMatch(message);
  });

  it('with the records in another schema', async () => {
    const error = await rejection(start(url, { schema: 'elsewhere' }));
    expect(error).toMatchObject({ code: 'idempotency_store_misconfigured' });
    expect(error.message).toMatch(/^Migrations are missing for "elsewhere"/);
  });
});

describe('The start succeeds', () => {
  it.each<[string, string, string[], Partial<PostgresStoreOptions>]>([
    ['with the four rights', ALL, [], {}],
    ['with a policy for every row', ALL, [SECURED, `${POLICY} TO USER ${EVERY_ROW}`], {}],
    ['with a policy for all users', ALL, [SECURED, `${POLICY} ${EVERY_ROW}`], {}],
    [
      'without DELETE where nothing is deleted',
      'SELECT, INSERT, UPDATE',
      [],
      { deleteExpired: false },
    ],
  ])('%s', async (_, rights, statements, options) => {
    const { address } = await prepare(rights, statements);
    const { run, log } = await start(address, options);
    expect(await run('a-key-that-runs')).toBe('paid');
    expect(log.own.filter((line) => !line.includes('fsync'))).toEqual([]);
  });
});

describe('The start warns once, and does not stop', () => {
  it.each<[string, string, RegExp]>([
    [
      'where writes are rejected, as on a server that was demoted',
      'ALTER ROLE USER SET default_transaction_read_only = on',
      /read-only transaction.* RESET default_transaction_read_only/,
    ],
    [
      'where a statement takes longer than it may',
      'ALTER ROLE USER SET lock_timeout = 1',
      /lock timeout/,
    ],
  ])('%s', async (_, statement, reason) => {
    const { address, admin } = await prepare(ALL, [statement]);
    const holder = await admin.connect();
    const isLocked = statement.includes('lock_timeout');
    await holder.query(isLocked ? `BEGIN; LOCK TABLE ${TABLE} IN SHARE MODE` : 'BEGIN');
    const { log } = await start(address, { connection: { lock_timeout: 0 } });
    await holder.query('ROLLBACK');
    holder.release();
    const found = log.own.filter((line) => !line.includes('fsync'));
    expect(found).toHaveLength(1);
    expect(found[0]).toContain('[store_step_failed]');
    expect(found[0]).toMatch(reason);
  });
});

const HIDDEN = [
  SECURED,
  `${POLICY} FOR SELECT TO USER USING (true)`,
  `CREATE POLICY q ON ${TABLE} FOR INSERT TO USER WITH CHECK (true)`,
  `CREATE POLICY r ON ${TABLE} FOR UPDATE TO USER USING (true)`,
  `CREATE POLICY s ON ${TABLE} FOR DELETE TO USER USING (false)`,
];

describe('The start warns that expired records would stay', () => {
  it.each<[string, string[]]>([
    ['where a policy hides rows from DELETE', HIDDEN],
    [
      'where a trigger swallows DELETE',
      [
        'CREATE FUNCTION swallow() RETURNS trigger AS $$ BEGIN RETURN NULL; END $$ LANGUAGE plpgsql',
        `CREATE TRIGGER t BEFORE DELETE ON ${TABLE} FOR EACH ROW EXECUTE FUNCTION swallow()`,
      ],
    ],
  ])('%s, unless nothing is to be deleted', async (_, statements) => {
    const { address } = await prepare(ALL, statements);
    const { log, run } = await start(address);
    const found = log.own.filter((line) => !line.includes('fsync'));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/DELETE changes no row of .* CREATE POLICY .*deleteExpired: false/);
    expect(found[0]).toContain('[postgres_deletes_nothing]');
    expect(await run('a-key-that-runs')).toBe('paid');
    const other = await start(address, { deleteExpired: false });
    expect(other.log.own.filter((line) => !line.includes('fsync'))).toEqual([]);
  });
});

describe('What the start has tried', () => {
  it('is gone, and is in no metric or list of the reconciler', async () => {
    const { address, admin } = await prepare(ALL);
    const { nest, store } = await start(address);
    expect((await admin.query(`SELECT FROM ${TABLE}`)).rows).toEqual([]);
    expect(nest.get(IdempotencyMeter, { strict: false }).read().store.commands).toEqual([]);
    const { records } = await store.abandoned({ overMs: 0, limit: 9, timeoutMs: 5_000 });
    expect(records).toEqual([]);
    expect(store.deletedRecords).toBe(0);
  });

  it('expires within seconds where the user may not delete it', async () => {
    const { address, admin } = await prepare('SELECT, INSERT, UPDATE');
    await start(address, { deleteExpired: false });
    const read = `SELECT state, expires_at - now() < interval '5 seconds' AS is_soon FROM ${TABLE}`;
    expect((await admin.query(read)).rows).toEqual([{ state: 'completed', is_soon: true }]);
  });
});
