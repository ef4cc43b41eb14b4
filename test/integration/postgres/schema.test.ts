import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { text as textOf } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { IdempotencyMeter, IdempotencyService } from 'nestjs-idempotency';
import { migrate, postgresStore, type PostgresStoreOptions } from 'nestjs-idempotency/postgres';
import { StoreConfigurationError } from '../../support/internals/core.js';
import {
  historySql,
  MIGRATIONS,
  migrationSql,
  TableName,
} from '../../support/internals/postgres.js';
import { afterTest } from '../../support/jest/after-test.js';
import { callingApp, rejection } from '../../support/nest/calling-app.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { beginCommand, newToken } from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';
import { CompiledStore } from './support/compiled-store.js';
import { ownStore, userPool } from './support/fixture.js';

const server = usePostgres();

describe('migrations', () => {
  const run = promisify(execFile);
  const PROCESSES = 8;
  const ALL = MIGRATIONS.map(({ id }) => id);
  const AWKWARD = { schema: `the "Shop's" schema`, table: 'Key; DROP TABLE x' };

  const compiled = useServer(
    () => CompiledStore.compile(),
    (it) => it.remove(),
  );

  describe('The migrations', () => {
    it(`run once when ${PROCESSES} processes start at once on an empty database`, async () => {
      const url = await server.newDatabase();
      // So many processes keep the machine too busy to connect within the default of two seconds.
      const options = { url, connection: { connectionTimeoutMillis: 30_000 } };
      const script = `
      const { migrate } = await import(${JSON.stringify(compiled.pathOf('stores/postgres/index'))});
      console.log(JSON.stringify(await migrate(${JSON.stringify(options)})));`;
      const processes = Array.from({ length: PROCESSES }, () =>
        run(process.execPath, ['--input-type=module', '--eval', script]),
      );
      const ran = (await Promise.all(processes)).map(
        ({ stdout }) => JSON.parse(stdout) as number[],
      );
      expect(ran.flat().sort()).toEqual(ALL);
      const { rows } = await userPool(url).query<{ id: number }>(
        'SELECT id FROM idempotency_records_migrations ORDER BY id',
      );
      expect(rows.map(({ id }) => id)).toEqual(ALL);
    }, 60_000);

    it('run in a database whose default isolation is serializable', async () => {
      const url = await server.newDatabase();
      const database = new URL(url).pathname.slice(1);
      await userPool(url).query(
        `ALTER DATABASE "${database}" SET default_transaction_isolation = 'serializable'`,
      );
      const stores = Array.from({ length: 10 }, () => ownStore(url));
      const ran = await Promise.all(stores.map((store) => store.migrate()));
      expect(ran.flat().sort()).toEqual(ALL);
    });

    it('create a schema and a table of any name', async () => {
      const url = await server.newDatabase();
      const store = ownStore(url, AWKWARD);
      expect(await store.migrate()).toEqual(ALL);
      expect(await store.migrate()).toEqual([]);
      await store.open();
      expect(await store.begin(beginCommand())).toMatchObject({ kind: 'acquired' });
      const { rows } = await userPool(url).query(
        'SELECT tablename AS table, schemaname AS schema FROM pg_tables WHERE tablename = $1',
        [AWKWARD.table],
      );
      expect(rows).toEqual([AWKWARD]);
    });

    it('leave nothing behind when they fail', async () => {
      const url = await server.newDatabase();
      const pool = userPool(url);
      // Blocks the table that the first migration creates.
      await pool.query('CREATE VIEW idempotency_records AS SELECT 1');
      await expect(migrate({ url })).rejects.toThrow(StoreConfigurationError);
      const { rows } = await pool.query(
        `SELECT to_regclass('idempotency_records_migrations') AS t`,
      );
      expect(rows).toEqual([{ t: null }]);
      await pool.query('DROP VIEW idempotency_records');
      expect(await migrate({ url })).toEqual(ALL);
    });

    it('report the missing privileges of the user', async () => {
      const url = await server.newDatabase();
      const pool = userPool(url);
      await pool.query(`CREATE ROLE reader LOGIN PASSWORD 'reader'`);
      const reader = new URL(url);
      [reader.username, reader.password] = ['reader', 'reader'];
      await expect(migrate({ url: reader.href })).rejects.toThrow(
        /Cannot run the migrations: permission denied .*\. Run them as a user that owns the table/,
      );
      await migrate({ url });
      const store = ownStore(reader.href);
      await expect(store.begin(beginCommand())).rejects.toThrow(
        /The user requires SELECT, INSERT, UPDATE and DELETE on "public"."idempotency_records"/,
      );
    });
  });

  describe('A store whose migrations were not run', () => {
    it('stops the start, with the command to run', async () => {
      const store = ownStore(await server.newDatabase(), { schema: 'shop' });
      await expect(store.open()).rejects.toThrow(StoreConfigurationError);
      await expect(store.open()).rejects.toThrow(
        'Migrations are missing for "shop"."idempotency_records": 1 (records), 2 (abandoned), 3 (note). Run them: await store.migrate(), or npx nestjs-idempotency migrate --schema shop --table idempotency_records',
      );
    });

    it('throws for every command', async () => {
      const store = ownStore(await server.newDatabase());
      await expect(store.begin(beginCommand())).rejects.toThrow(StoreConfigurationError);
      await expect(store.begin(beginCommand())).rejects.toThrow(/Run the migrations/);
    });
  });

  describe('A table of an earlier version', () => {
    const cli = (...args: string[]) =>
      run(process.execPath, [compiled.pathOf('cli/main'), ...args]);

    /** The table after the first migration, with one record. */
    async function firstVersion() {
      const url = await server.newDatabase();
      const table = new TableName();
      await userPool(url).query(historySql(table));
      await userPool(url).query(migrationSql(MIGRATIONS[0]!, table));
      const begin = beginCommand();
      await userPool(url).query(
        `INSERT INTO idempotency_records (record_key, state, token, fence, fingerprint, attempt, takeovers, lease_until,
         lease_ms, deadline, expires_at)
       VALUES ($1, 'in_progress', $2, 1, $3, 1, 0, now() + interval '1 hour', 3600000, now() + interval '1 hour',
         now() + interval '2 hours')`,
        [Buffer.from(begin.recordKey, 'base64url'), begin.token, begin.fingerprint],
      );
      return { url, store: ownStore(url), begin };
    }

    async function indexes(url: string): Promise<string[]> {
      const { rows } = await userPool(url).query<{ indexdef: string }>(
        `SELECT indexdef FROM pg_indexes WHERE tablename = 'idempotency_records'`,
      );
      return rows.map(({ indexdef }) => indexdef);
    }

    const PARTIAL = expect.stringMatching(
      /\(lease_until\) WHERE .*in_progress.*origin IS NOT NULL/,
    );

    it('stops the start with only the missing migrations', async () => {
      const { store } = await firstVersion();
      await expect(store.open()).rejects.toThrow(
        '"idempotency_records": 2 (abandoned), 3 (note). Run them: await store.migrate(), or npx nestjs-idempotency migrate --schema public --table idempotency_records',
      );
    });

    it('is migrated by the missing migrations, and keeps its records', async () => {
      const { url, store, begin } = await firstVersion();
      expect(await indexes(url)).not.toContainEqual(PARTIAL);
      expect(await store.migrate()).toEqual(ALL.slice(1));
      expect(await indexes(url)).toContainEqual(PARTIAL);
      await store.open();
      expect(await store.begin(begin)).toMatchObject({ kind: 'owned' });
    });

    it('gets the column of the note without a new table', async () => {
      const { url, store, begin } = await firstVersion();
      const file = async () =>
        (await userPool(url).query(`SELECT pg_relation_filenode('idempotency_records') AS file`))
          .rows;
      const before = await file();
      await store.migrate();
      expect(await file()).toEqual(before);
      const duplicate = await store.begin({ ...begin, token: newToken(), note: "a-duplicate's" });
      expect(duplicate).not.toHaveProperty('note');
    });

    it('is migrated by the printed SQL', async () => {
      const { url, store } = await firstVersion();
      const { stdout } = await cli('sql', '--from', '2');
      await userPool(url).query(stdout);
      expect(await indexes(url)).toContainEqual(PARTIAL);
      expect(await store.migrate()).toEqual([]);
      await store.open();
    });
  });

  describe('npx nestjs-idempotency', () => {
    const SECRET = 's3cr3t-word';
    const missingOf = (from: number) =>
      MIGRATIONS.filter(({ id }) => id >= from).map(({ id, name }) => `missing  ${id} ${name}`);

    interface Ended {
      readonly code: number;
      readonly stdout: string;
      readonly stderr: string;
    }

    function cli(args: readonly string[], url = ''): Promise<Ended> {
      const env = { ...process.env, DATABASE_URL: url };
      return run(process.execPath, [compiled.pathOf('cli/main'), ...args], { env }).then(
        ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
        (error: unknown) => error as Ended,
      );
    }

    it('status exits with 1 while a migration is missing, and migrate runs it', async () => {
      const url = await server.newDatabase();
      const { host } = new URL(url);
      const names = ['--schema', AWKWARD.schema, '--table', AWKWARD.table];
      const before = await cli(['status', ...names], url);
      expect(before.code).toBe(1);
      expect(before.stdout).toContain(` on ${host}\n${missingOf(1).join('\n')}\n`);
      expect(before.stdout).toContain('The schema is behind. Run npx nestjs-idempotency migrate ');
      expect(await cli(['migrate', ...names, '--url', url])).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('ran 1 (records), 2 (abandoned), 3 (note).'),
      });
      expect(await cli(['migrate', ...names], url)).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('no migration was missing.'),
      });
      const after = await cli(['status', ...names], url);
      expect(after.code).toBe(0);
      expect(after.stdout).not.toContain('missing');
      expect(await ownStore(url, AWKWARD).migrate()).toEqual([]);
      expect((await cli(['status'], url)).code).toBe(1);
    });

    it('status names migrations of a later version, which do no harm', async () => {
      const url = await server.newDatabase();
      await migrate({ url });
      await userPool(url).query("INSERT INTO idempotency_records_migrations VALUES (99, 'later')");
      expect(await cli(['status'], url)).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^later {4}99, of a later version/m),
      });
    });

    it('migrate waits for another one, also for one that is killed', async () => {
      const url = await server.newDatabase();
      const pool = userPool(url);
      const lock = new TableName().advisoryLock('migrations');
      const waiting = async () => {
        const { rows } = await pool.query<{ pid: number }>(
          `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
        );
        return rows.length;
      };
      const holder = await pool.connect();
      await holder.query(`SELECT pg_advisory_lock(${lock})`);
      const killed = spawn(process.execPath, [compiled.pathOf('cli/main'), 'migrate'], {
        env: { ...process.env, DATABASE_URL: url },
        stdio: 'ignore',
      });
      await until(async () => (await waiting()) === 1);
      const two = [cli(['migrate'], url), cli(['migrate'], url)];
      await until(async () => (await waiting()) === 3);
      const exited = once(killed, 'exit');
      killed.kill('SIGKILL');
      await exited;
      await holder.query(`SELECT pg_advisory_unlock(${lock})`);
      holder.release();
      const ended = await Promise.all(two);
      expect(ended.map(({ code }) => code)).toEqual([0, 0]);
      expect((await cli(['status'], url)).code).toBe(0);
      await until(async () => (await waiting()) === 0);
    }, 60_000);

    it.each<[string, number, string]>([
      ['whose reader has seen enough', 0, ''],
      [
        'on a full disk',
        3,
        'The output cannot be written (ENOSPC). What was asked for may be done.\n',
      ],
    ])('an output %s is no failure of what was asked for', async (_, code, note) => {
      const output = code === 0 ? 'pipe' : openSync('/dev/full', 'w');
      const printing = spawn(process.execPath, [compiled.pathOf('cli/main'), 'sql'], {
        stdio: ['ignore', output, 'pipe'],
      });
      printing.stdout?.destroy();
      const [notes, [exitCode]] = await Promise.all([
        textOf(printing.stderr!),
        once(printing, 'exit'),
      ]);
      expect([notes, exitCode]).toEqual([note, code]);
    });

    it('migrate that is killed within a migration leaves neither a lock nor a table', async () => {
      const url = await server.newDatabase();
      const pool = userPool(url);
      // The first migration waits for it to create its table.
      const holder = await pool.connect();
      await holder.query('BEGIN');
      await holder.query('CREATE TABLE idempotency_records (id integer)');
      const killed = spawn(process.execPath, [compiled.pathOf('cli/main'), 'migrate'], {
        env: { ...process.env, DATABASE_URL: url },
        stdio: 'ignore',
      });
      await until(async () => {
        const { rowCount } = await pool.query(
          `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        );
        return rowCount === 1;
      });
      const exited = once(killed, 'exit');
      killed.kill('SIGKILL');
      await exited;
      await holder.query('ROLLBACK');
      holder.release();
      expect(await cli(['migrate'], url)).toMatchObject({ code: 0 });
      expect((await cli(['status'], url)).code).toBe(0);
    }, 60_000);

    it('sql prints what creates the table, for other migration tools', async () => {
      const url = await server.newDatabase();
      const { schema, table } = AWKWARD;
      const { stdout } = await cli(['sql', '--schema', schema, '--table', table]);
      await userPool(url).query(stdout);
      const store = ownStore(url, AWKWARD);
      expect(await store.migrate()).toEqual([]);
      await store.open();
      expect(await store.begin(beginCommand())).toMatchObject({ kind: 'acquired' });
    });

    it.each([[[]], [['--blobs']]])(
      'sql %j --statement-breakpoints separates statements that can be sent one by one',
      async (kind) => {
        const url = await server.newDatabase();
        const { stdout } = await cli(['sql', ...kind, '--statement-breakpoints']);
        const statements = stdout.split('--> statement-breakpoint');
        expect(statements.length).toBeGreaterThan(3);
        const pool = userPool(url);
        // With values, the server takes one statement only.
        for (const text of statements) {
          const statement: object = { text, queryMode: 'extended' };
          await pool.query(statement as { text: string });
        }
        expect(await cli(['status', ...kind], url)).toMatchObject({ code: 0 });
        expect(await cli(['migrate', ...kind], url)).toMatchObject({
          stdout: expect.stringContaining('no migration was missing'),
        });
      },
    );

    it('sql --missing prints what the database lacks', async () => {
      const url = await server.newDatabase();
      const all = await cli(['sql']);
      expect((await cli(['sql', '--missing'], url)).stdout).toBe(all.stdout);
      const table = new TableName();
      await userPool(url).query(historySql(table) + migrationSql(MIGRATIONS[0]!, table));
      const rest = await cli(['sql', '--missing'], url);
      expect(rest.stdout).toBe((await cli(['sql', '--from', '2'])).stdout);
      await userPool(url).query(rest.stdout);
      expect(await cli(['sql', '--missing', '--url', url])).toMatchObject({
        code: 0,
        stdout: '-- No migration of "public"."idempotency_records" is missing.\n',
      });
    });

    it.each([
      [[], 'Unknown command'],
      [['migrations'], 'Unknown command "migrations"'],
      [['sql', '--from', '99'], '--from must be 1 to'],
      [['sql', '--tabel', 'x'], "Unknown option '--tabel'"],
      [['sql', '--table', ''], '"table" must be a string of 1 to 50 bytes'],
      [['sql', '--from', '2', '--missing'], 'either --from or --missing'],
      [['sql', '--url', `postgres://a:${SECRET}@b/c`], '--url is for --missing'],
      [['status', '--from', '2'], 'are options of sql'],
      [['status'], 'Pass --url postgres://user:password@host:port/database, or set DATABASE_URL.'],
      [['status', `postgres://a:${SECRET}@b/c`], 'Pass the URL as --url'],
      [['status', '--url', `redis://a:${SECRET}@b/0`], '--url must begin with postgres://'],
      [['status', '--url', `postgres://a:${SECRET}@b:x/c`], '--url: The URL is invalid. The port'],
    ])('%j fails with the reason and the usage', async (args, reason) => {
      const failure = await cli(args);
      expect(failure).toMatchObject({ code: 2, stdout: '' });
      expect(failure.stderr).toContain(reason);
      expect(failure.stderr).toContain('[idempotency_options_invalid]');
      expect(failure.stderr).toContain('Usage: nestjs-idempotency status');
      expect(failure.stderr).not.toContain(SECRET);
    });

    it.each([
      [
        'that does not listen',
        'idempotency_store_unavailable',
        /ECONNREFUSED .*\. Check host and port, and whether the server runs\./,
        freePort,
      ],
      [
        'that knows no such user',
        'idempotency_store_misconfigured',
        /password authentication failed for user "mallory"\. Check the user name and the password\./,
        () => Promise.resolve(server.port),
      ],
    ])(
      'a server %s is one line, with a code and without the password',
      async (_, code, reason, findPort) => {
        const url = `postgres://mallory:${SECRET}@127.0.0.1:${String(await findPort())}/none`;
        for (const args of [['status'], ['migrate'], ['sql', '--missing']]) {
          const failure = await cli(args, url);
          expect(failure).toMatchObject({ code: 2, stdout: '' });
          expect(failure.stderr).toMatch(reason);
          const task =
            args[0] === 'migrate' ? /migrations were run:|run the migrations:/ : /^Cannot read/;
          expect(failure.stderr).toMatch(task);
          expect(failure.stderr.trim().split('\n').length).toBe(1);
          expect(failure.stderr).toContain(`[${code}]`);
          expect(failure.stderr).not.toContain(SECRET);
        }
      },
    );
  });

  describe('postgresStore', () => {
    it.each([
      [{}, 'one of executor, url, connection is required'],
      [
        { url: 'redis://x' },
        '"url" must begin with postgres:// or postgresql://, but it is "redis:"',
      ],
      [{ url: 'postgres://x', listenUrl: 'x' }, '"listenUrl" must begin with postgres://'],
      [
        { url: 'postgres://x', tabel: 'x' },
        '"tabel" is not an option of postgresStore. Did you mean "table" or "journal.table"?',
      ],
      [{ url: 'postgres://x', table: 'x'.repeat(51) }, '"table" must be a string of 1 to 50 bytes'],
      [{ url: 'postgres://x', schema: 'a\0b' }, '"schema" must be a string of 1 to 63 bytes'],
      [{ url: 'postgres://x', push: 'yes' }, '"push" must be true or false, but it is "yes"'],
      [{ connection: 'x' }, '"connection" must be an object of settings of pg, but it is a string'],
      [
        { connection: new URL('postgres://x') },
        '"connection" must be an object of settings of pg, but it is a URL',
      ],
      [
        { executor: { connect: (): undefined => undefined, totalCount: 0 } },
        'executor must be the result of fromPg, ',
      ],
      [
        { executor: { connect: (): undefined => undefined }, url: 'postgres://x' },
        'executor has its own connection: leave out url.',
      ],
      [{ host: 'x' }, '"host" is not an option of postgresStore. It is a setting of pg: '],
      [{ pool: 1 }, '"pool" is not an option of postgresStore. Pass { executor: fromPg(pool) }'],
    ])('rejects %j', (options, message) => {
      expect(() => postgresStore(options as never)).toThrow(message);
    });

    it.each([
      { url: 'user:secret@host' },
      { url: 'http://user:secret@host' },
      { url: 'postgres://x', listenUrl: 'http://user:secret@host' },
      { connection: 'postgres://user:secret@host' },
      { executor: 'postgres://user:secret@host' },
    ])('rejects %j without showing the password', (options) => {
      const create = () => postgresStore(options as never);
      expect(create).toThrow(expect.objectContaining({ code: 'idempotency_options_invalid' }));
      expect(create).not.toThrow('secret');
    });
  });
});

describe('rights', () => {
  const TABLE = 'idempotency_records';
  const SECURED = `ALTER TABLE ${TABLE} ENABLE ROW LEVEL SECURITY`;
  const POLICY = `CREATE POLICY p ON ${TABLE}`;
  const EVERY_ROW = 'USING (true) WITH CHECK (true)';
  let url: string;
  let users = 0;

  beforeAll(async () => {
    url = await server.newDatabase();
  });

  /**
   * Prepares a new table, without the rights, policies and triggers of an earlier one, and a user of its own.
   *
   * @param rights - on the table, which stands for TABLE in them.
   */
  async function prepare(rights: string, statements: readonly string[] = []) {
    const admin = userPool(url);
    await admin.query(
      'DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO public',
    );
    await migrate({ url });
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
    const address = Object.assign(new URL(url), { username: user, password: 'pw' }).href;
    return { admin, address };
  }

  async function start(address: string, options: Partial<PostgresStoreOptions> = {}) {
    const store = postgresStore({ url: address, ...options } as PostgresStoreOptions);
    const { nest, log } = await callingApp({}, { store });
    afterTest(() => nest.close());
    const service = nest.get(IdempotencyService, { strict: false });
    const run = (key: string) =>
      service.run({ operation: 'pay', key, scope: 'alice' }, () => 'paid');
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
    // The name of the service stays.
    const TRIED = 'note IS NULL';

    it('is gone, and is in no metric or list of the reconciler', async () => {
      const { address, admin } = await prepare(ALL);
      const { nest, store } = await start(address);
      expect((await admin.query(`SELECT FROM ${TABLE} WHERE ${TRIED}`)).rows).toEqual([]);
      expect(nest.get(IdempotencyMeter, { strict: false }).read().store.commands).toEqual([]);
      const { records } = await store.abandoned({ overMs: 0, limit: 9, timeoutMs: 5_000 });
      expect(records).toEqual([]);
      expect(store.deletedRecords).toBe(0);
    });

    it('expires within seconds where the user may not delete it', async () => {
      const { address, admin } = await prepare('SELECT, INSERT, UPDATE');
      await start(address, { deleteExpired: false });
      const read = `SELECT state, expires_at - now() < interval '5 seconds' AS is_soon FROM ${TABLE} WHERE ${TRIED}`;
      expect((await admin.query(read)).rows).toEqual([{ state: 'completed', is_soon: true }]);
    });
  });
});
