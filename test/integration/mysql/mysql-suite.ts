import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { createPool as createCallbackPool } from 'mysql2';
import { createPool, type Pool, type RowDataPacket } from 'mysql2/promise';
import { StoreConfigurationError, StoreUnavailableError } from 'nestjs-idempotency';
import { mysqlStore, type MysqlIdempotencyStore } from 'nestjs-idempotency/mysql';
import {
  fromMysql2,
  mysql2UnitOfWork,
  type Mysql2Transaction,
  type MysqlConnection,
} from 'nestjs-idempotency/mysql2';
import {
  DeferredTransaction,
  nodeClock,
  type Begin,
  type Lease,
  type OpenTransaction,
} from '../../support/internals/core.js';
import { runDoctor, runMigrate, runStatus, sqlOf } from '../../support/internals/cli.js';
import { guardMysql2, restoringSession } from '../../support/internals/mysql.js';
import { isTestAll } from '../../support/jest/test-all.js';
import type { MysqlServer } from '../../support/mysql/mysql-server.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  releaseCommand,
} from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';

const TIMEOUT_MS = 30_000;
const CONNECTIONS = 64;
const DUPLICATES = 8;
/** Of each key, one effect. */
const KEYS = isTestAll ? 10_000 : 100;
const MEBIBYTE = 1_048_576;

/** What a store on MySQL or MariaDB has to show beside the kit, on a real server. */
export function describeMysqlStore(server: Pick<MysqlServer, 'port' | 'newDatabase'>): void {
  let url: string;
  let pool: Pool;
  let store: MysqlIdempotencyStore;

  beforeAll(async () => {
    url = await server.newDatabase();
    pool = createPool({ uri: url, connectionLimit: CONNECTIONS });
    store = mysqlStore({ executor: fromMysql2(pool) });
    await store.migrate();
    await pool.query('CREATE TABLE effects (id varchar(64) NOT NULL) ENGINE = InnoDB');
  });
  afterEach(() => pool.query('DELETE FROM effects'));
  afterAll(async () => {
    await store.close();
    await pool.end();
  });

  async function effects(): Promise<string[]> {
    const [rows] = await pool.query<RowDataPacket[]>('SELECT id FROM effects');
    return rows.map(({ id }) => id as string).sort();
  }

  const begin = (changes: Partial<Begin> = {}) =>
    beginCommand({ timeoutMs: TIMEOUT_MS, ...changes });

  async function acquired(changes: Partial<Begin> = {}): Promise<Lease> {
    const command = begin(changes);
    const reply = await store.begin(command);
    if (!('fence' in reply)) throw new Error(`begin returned ${reply.kind}`);
    return leaseOf(command, reply.fence);
  }

  describe('migrations', () => {
    it('may be run by any number of processes at once', async () => {
      const other = await server.newDatabase();
      const stores = Array.from({ length: 8 }, () => mysqlStore({ url: other }));
      const ran = await Promise.all(stores.map((one) => one.migrate()));
      expect(ran.flat()).toEqual([1]);
      await Promise.all(stores.map((one) => one.open()));
      await Promise.all(stores.map((one) => one.close()));
    });

    it('are run by the command migrate, shown by status, and printed by sql', async () => {
      const other = await server.newDatabase();
      const printed: string[] = [];
      const print = (text: string) => void printed.push(text);
      const names = ['--table', 'own$records', '--url', other];
      expect(await runStatus(names, print)).toBe(1);
      expect(printed.join('')).toContain('missing  1 records\n\nThe schema is behind.');
      await runMigrate(names, print);
      expect(printed.at(-1)).toContain('ran 1 (records).');
      await runMigrate(names, print);
      expect(printed.at(-1)).toContain('no migration was missing.');
      expect(await runStatus(names, print)).toBe(0);
      expect(await sqlOf(['--missing', ...names])).toContain(
        'No migration of `own$records` is missing',
      );
      // A tool runs the printed statements one by one.
      const script = await sqlOf(['--mysql', '--statement-breakpoints']);
      const byTool = createPool(await server.newDatabase());
      for (const statement of script.split('--> statement-breakpoint'))
        await byTool.query(statement);
      const byHand = mysqlStore({ executor: fromMysql2(byTool) });
      await byHand.open();
      await byHand.close();
      await byTool.end();
    });

    it('and the server are checked by the doctor, step by step', async () => {
      const found: string[] = [];
      const code = await runDoctor(['--mysql', url, '--json'], (text) => void found.push(text));
      const findings = JSON.parse(found.join('')) as { check: string; verdict: string }[];
      const verdicts = Object.fromEntries(findings.map(({ check, verdict }) => [check, verdict]));
      // The server of the tests flushes nothing, and MySQL notifies nobody.
      expect(verdicts).toMatchObject({
        connection: 'ok',
        role: 'ok',
        durability: 'warning',
        migrations: 'ok',
        steps: 'ok',
        clock: 'ok',
      });
      expect(code).toBe(1);
    });

    it('name the rights that the user lacks', async () => {
      const database = new URL(url).pathname.slice(1);
      await pool.query("CREATE USER IF NOT EXISTS 'reader'@'%' IDENTIFIED BY 'reads'");
      await pool.query(`GRANT SELECT ON ${database}.* TO 'reader'@'%'`);
      const reader = Object.assign(new URL(url), { username: 'reader', password: 'reads' }).href;
      const other = mysqlStore({ url: reader });
      await expect(other.open()).rejects.toThrow(StoreConfigurationError);
      await expect(other.open()).rejects.toThrow(
        'requires SELECT, INSERT, UPDATE and DELETE on idempotency_records',
      );
      await pool.query("DROP USER 'reader'@'%'");
    });

    it.each([
      ['idempotency_records', 'MyISAM'],
      ['idempotency_records_locks', 'MEMORY'],
    ])('are no longer enough where %s is on another engine: %s', async (table, engine) => {
      const other = await server.newDatabase();
      const moved = mysqlStore({ url: other });
      const admin = createPool({ uri: other, connectionLimit: 1 });
      try {
        await moved.migrate();
        await admin.query(`ALTER TABLE ${table} ENGINE = ${engine}`);
        const started = moved.open();
        await expect(started).rejects.toThrow(`Not on InnoDB: ${table} (${engine}).`);
        await expect(started).rejects.toThrow(StoreConfigurationError);
        await admin.query(`ALTER TABLE ${table} ENGINE = InnoDB`);
        await moved.open();
      } finally {
        await moved.close();
        await admin.end();
      }
    });

    it('are required by the start, which names them', async () => {
      const other = mysqlStore({ url: await server.newDatabase() });
      await expect(other.open()).rejects.toThrow(StoreConfigurationError);
      await expect(other.open()).rejects.toThrow('1 (records). Run them: await store.migrate()');
    });
  });

  it.each(['autocommit = 0', 'sql_select_limit = 10', 'sql_safe_updates = 1'])(
    'is not started on connections with %s',
    async (setting) => {
      const own = createPool({ uri: url, connectionLimit: 1 });
      try {
        await own.query(`SET SESSION ${setting}`);
        const [name] = setting.split(' ');
        const started = mysqlStore({ executor: fromMysql2(own) }).open();
        await expect(started).rejects.toThrow(`${name!} is`);
        await expect(started).rejects.toThrow(StoreConfigurationError);
      } finally {
        await own.end();
      }
    },
  );

  it('says at the start that its session may only read, as on a replica', async () => {
    const own = createPool({ uri: url, connectionLimit: 1 });
    const reading = mysqlStore({ executor: fromMysql2(own) });
    try {
      await own.query('SET SESSION TRANSACTION READ ONLY');
      expect(await reading.open()).toEqual([
        expect.objectContaining({ code: 'mysql_is_read_only', isOutage: true }),
        expect.objectContaining({ code: 'mysql_commits_late' }),
      ]);
    } finally {
      await reading.close();
      await own.end();
    }
  });

  it('executes each key once under duplicates on 64 connections, and no caller sees a deadlock [P01]', async () => {
    const keys = Array.from({ length: KEYS }, () => randomBytes(32).toString('base64url'));
    const calls = keys.flatMap((key) => Array.from({ length: DUPLICATES }, () => key));
    const kinds = new Map<string, number>();
    const left = calls.values();
    const callSome = async () => {
      for (const key of left) {
        const command = begin({ recordKey: key as Begin['recordKey'] });
        const reply = await store.begin(command);
        kinds.set(reply.kind, (kinds.get(reply.kind) ?? 0) + 1);
        if (!('fence' in reply)) continue;
        await pool.execute('INSERT INTO effects VALUES (?)', [key]);
        await store.complete(
          leaseOf(command, reply.fence),
          completeCommand({ timeoutMs: TIMEOUT_MS }),
        );
      }
    };
    await Promise.all(Array.from({ length: 2 * CONNECTIONS }, callSome));
    expect(await effects()).toEqual([...keys].sort());
    expect(kinds.get('acquired')).toBe(KEYS);
    expect(Object.fromEntries(kinds)).not.toHaveProperty('takeover');
  }, 600_000);

  it('lets 64 connections wait for one key without a deadlock, while it is begun and released', async () => {
    const recordKey = begin().recordKey;
    const deadlocksBefore = await deadlocks();
    let won = 0;
    const callSome = async () => {
      for (let round = 0; round < (isTestAll ? 50 : 5); round += 1) {
        const command = begin({ recordKey });
        const reply = await store.begin(command);
        if (!('fence' in reply)) continue;
        won += 1;
        await store.release(
          leaseOf(command, reply.fence),
          releaseCommand({ timeoutMs: TIMEOUT_MS }),
        );
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, callSome));
    expect(won).toBeGreaterThan(0);
    expect(await deadlocks()).toBe(deadlocksBefore);
  }, 120_000);

  /** Also those that were sent again. */
  async function deadlocks(): Promise<number> {
    const [[row]] = await pool.query<RowDataPacket[]>(
      "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'",
    );
    return Number(row?.count);
  }

  describe('an outcome', () => {
    it('of 15 MiB comes back byte for byte', async () => {
      const command = begin();
      const lease = leaseOf(command, ((await store.begin(command)) as { fence: number }).fence);
      const body = randomBytes(15 * MEBIBYTE);
      await store.complete(
        lease,
        completeCommand({ outcome: { header: 'é', body }, timeoutMs: TIMEOUT_MS }),
      );
      const reply = await store.begin(begin({ recordKey: command.recordKey }));
      if (!('outcome' in reply)) throw new Error(`begin returned ${reply.kind}`);
      const { outcome } = reply;
      expect(outcome.header).toBe('é');
      expect(body.equals(outcome.body)).toBe(true);
    }, 60_000);

    it('above max_allowed_packet is refused with both sizes, and nothing is lost', async () => {
      const [[row]] = await pool.query<RowDataPacket[]>('SELECT @@max_allowed_packet AS bytes');
      const limit = Number(row?.bytes);
      const lease = await acquired();
      const body = Buffer.alloc(limit);
      const before = await countOf('Connections');
      const complete = store.complete(lease, completeCommand({ outcome: { header: '-', body } }));
      await expect(complete).rejects.toThrow(StoreUnavailableError);
      await expect(complete).rejects.toThrow(
        `${limit + 1} bytes, and max_allowed_packet of the server is ${limit}`,
      );
      expect(await countOf('Connections')).toBe(before);
      expect((await store.inspect(lease.recordKey, { timeoutMs: TIMEOUT_MS }))?.state).toBe(
        'in_progress',
      );
      expect(await store.complete(lease, completeCommand())).toEqual({ kind: 'ok' });
    }, 60_000);
  });

  async function countOf(status: 'Connections' | 'Com_commit'): Promise<number> {
    const [[row]] = await pool.query<RowDataPacket[]>(`SHOW GLOBAL STATUS LIKE '${status}'`);
    return Number(row?.Value);
  }

  describe('over a network that loses replies', () => {
    let relay: TcpRelay;
    let far: MysqlIdempotencyStore;

    beforeAll(async () => {
      relay = await TcpRelay.start(server.port);
      far = mysqlStore({ url: relay.through(url), connection: { connectionLimit: 1 } });
    });
    afterAll(async () => {
      await far.close();
      await relay.stop();
    });

    it('begins, completes and releases once, though the reply to each was lost', async () => {
      await far.inspect(begin().recordKey, { timeoutMs: TIMEOUT_MS });
      const command = begin();
      relay.breakAtNextReply();
      const reply = await far.begin(command);
      const again = await far.begin(command);
      expect(again.kind).toBe('owned');
      const lease = leaseOf(command, (again as { fence: number }).fence);
      expect(['acquired', 'owned']).toContain(reply.kind);
      expect(reply).toMatchObject({ attempt: 1, takeovers: 0 });
      relay.breakAtNextReply();
      expect(['ok', 'already']).toContain(
        (await far.complete(lease, completeCommand({ timeoutMs: TIMEOUT_MS }))).kind,
      );
      expect((await store.begin(begin({ recordKey: command.recordKey }))).kind).toBe('completed');
    });

    it('says that the outcome is unknown while no reply comes, and works again', async () => {
      const lease = await acquired();
      relay.swallowReplies();
      const lost = far.complete(lease, completeCommand({ timeoutMs: 300 }));
      await expect(lost).rejects.toMatchObject({
        code: expect.stringMatching(/outcome_unknown|unavailable/),
      });
      relay.deliver();
      relay.cut();
      const kind = (await far.complete(lease, completeCommand({ timeoutMs: TIMEOUT_MS }))).kind;
      expect(['ok', 'already']).toContain(kind);
    });

    it('gives a connection of a library its own methods back, though its COMMIT got no reply', async () => {
      const own = createCallbackPool({ uri: relay.through(url), connectionLimit: 1 });
      const connection = await promisify(own.getConnection.bind(own))();
      const replaced = () => ['query', 'execute'].filter((name) => Object.hasOwn(connection, name));
      await connection.promise().query('START TRANSACTION');
      const before = await countOf('Com_commit');
      const given = restoringSession(async (kept) => {
        const { guard } = kept(guardMysql2(connection as unknown as MysqlConnection));
        expect(replaced()).toEqual(['query', 'execute']);
        guard.end();
        relay.swallowReplies();
        const committed = jest.fn();
        connection.query('COMMIT', committed);
        // By then the server has replied, and the relay has kept it.
        await until(async () => (await countOf('Com_commit')) > before);
        expect(committed).not.toHaveBeenCalled();
        throw new Error('no reply in time');
      });
      await expect(given).rejects.toThrow('no reply in time');
      expect(replaced()).toEqual([]);
      relay.deliver();
      connection.destroy();
      own.end(() => undefined);
    });
  });

  describe('in a transaction of the application', () => {
    const unitOfWork = () => mysql2UnitOfWork(pool);

    type Locked = DeferredTransaction & {
      readonly transaction: OpenTransaction<Mysql2Transaction>;
    };

    async function open(lease: Lease): Promise<Locked> {
      const deferred = await DeferredTransaction.open(
        unitOfWork(),
        { isolation: undefined, timeoutMs: TIMEOUT_MS },
        async (transaction) => {
          const locked = await store.transactional.lock(transaction, lease, {
            maxExecutionMs: TIMEOUT_MS,
          });
          if (!locked) throw new Error('The record was not locked');
        },
        TIMEOUT_MS,
        nodeClock,
      );
      return deferred as Locked;
    }

    const insert = ({ transaction: { handle } }: Locked, id: string) =>
      handle.execute('INSERT INTO effects VALUES (?)', [id]);

    const commit = (deferred: Locked, lease: Lease) =>
      deferred.commit(async (transaction) => {
        const end = await store.transactional.complete(transaction, lease, completeCommand());
        if (end !== 'stored') throw new Error(`The outcome was not stored: ${end}`);
      });

    const stateOf = async ({ recordKey }: Lease) =>
      (await store.inspect(recordKey, { timeoutMs: TIMEOUT_MS }))?.state;

    it('record and effect are committed together', async () => {
      const lease = await acquired();
      const deferred = await open(lease);
      await insert(deferred, 'both');
      expect(await effects()).toEqual([]);
      expect(await commit(deferred, lease)).toEqual({ kind: 'committed' });
      expect(await effects()).toEqual(['both']);
      expect(await stateOf(lease)).toBe('completed');
      expect(await rowsOf('idempotency_records_locks')).toBe(0);
    });

    it('an error rolls both back', async () => {
      const lease = await acquired();
      const deferred = await open(lease);
      await insert(deferred, 'none');
      await deferred.rollBack();
      expect(await effects()).toEqual([]);
      expect(await stateOf(lease)).toBe('in_progress');
      await store.transactional.ended(lease, { timeoutMs: TIMEOUT_MS });
    });

    it('a session that dies before the commit leaves none of both', async () => {
      const lease = await acquired();
      const deferred = await open(lease);
      await insert(deferred, 'none');
      const own = 'SELECT CONNECTION_ID() AS id';
      const [[row]] = await deferred.transaction.handle.query<RowDataPacket[]>(own);
      await pool.query(`KILL ${Number(row?.id)}`);
      const end = await commit(deferred, lease);
      expect(end).toMatchObject({ kind: 'failed' });
      expect(unitOfWork().isInterruption((end as { error: unknown }).error)).toBe(true);
      expect(await effects()).toEqual([]);
      expect(await stateOf(lease)).toBe('in_progress');
      await store.transactional.ended(lease, { timeoutMs: TIMEOUT_MS });
    });

    it('duplicates get "in progress" at once, also after the lease, until the transaction ends', async () => {
      const command = begin({ leaseMs: 1 });
      const lease = leaseOf(command, ((await store.begin(command)) as { fence: number }).fence);
      const deferred = await open(lease);
      const duplicate = begin({ recordKey: command.recordKey, leaseMs: 1, timeoutMs: 1_000 });
      expect((await store.begin(duplicate)).kind).toBe('in_progress');
      const denied = { ...duplicate, onExpiredLease: 'deny' } as const;
      expect((await store.begin(denied)).kind).toBe('in_progress');
      await deferred.rollBack();
      expect((await store.begin(denied)).kind).toBe('abandoned');
      expect((await store.begin(duplicate)).kind).toBe('takeover');
    });

    it('a late owner is fenced: neither its effect nor its outcome is committed', async () => {
      const command = begin({ leaseMs: 1 });
      const lease = leaseOf(command, ((await store.begin(command)) as { fence: number }).fence);
      const other = begin({ recordKey: command.recordKey });
      await until(async () => (await store.begin(other)).kind === 'takeover');
      const { fence } = (await store.begin(other)) as { fence: number };
      await expect(open(lease)).rejects.toThrow('The record was not locked');
      // It had opened its transaction before, and hung for longer than the max execution.
      const late = (await DeferredTransaction.open(
        unitOfWork(),
        { isolation: undefined, timeoutMs: TIMEOUT_MS },
        async (transaction) => {
          await store.transactional.lock(transaction, lease, { maxExecutionMs: 0 });
        },
        TIMEOUT_MS,
        nodeClock,
      )) as Locked;
      await insert(late, 'late');
      expect(await commit(late, lease)).toMatchObject({ kind: 'failed' });
      expect(await effects()).toEqual([]);
      expect(await store.complete(leaseOf(other, fence), completeCommand())).toEqual({
        kind: 'ok',
      });
    });

    it('a transaction that the application ends itself stores no outcome', async () => {
      const lease = await acquired();
      const deferred = await open(lease);
      await insert(deferred, 'early');
      for (const end of ['COMMIT', '# paid\nCOMMIT', '/*!40000 COMMIT */', '/*M!100000 COMMIT */'])
        await expect(deferred.transaction.handle.query(end)).rejects.toThrow(
          'rejects BEGIN, COMMIT and ROLLBACK',
        );
      // A statement that changes a table commits without a word.
      await deferred.transaction.handle.query('CREATE TABLE IF NOT EXISTS ends_it (id integer)');
      const error = new Error('The outcome was not stored: committed');
      expect(await commit(deferred, lease)).toMatchObject({ kind: 'failed', error });
      expect(await stateOf(lease)).toBe('in_progress');
      await store.transactional.ended(lease, { timeoutMs: TIMEOUT_MS });
    });

    it('a lock wait timeout that the handler swallows rolls all of it back, as a conflict', async () => {
      await pool.query(
        'CREATE TABLE IF NOT EXISTS accounts (id integer PRIMARY KEY, amount integer) ENGINE = InnoDB',
      );
      await pool.query('REPLACE INTO accounts VALUES (1, 0)');
      const holder = await pool.getConnection();
      await holder.beginTransaction();
      await holder.query('UPDATE accounts SET amount = 1 WHERE id = 1');
      const lease = await acquired();
      const deferred = await open(lease);
      const { handle } = deferred.transaction;
      await insert(deferred, 'half');
      await handle.query('SET SESSION innodb_lock_wait_timeout = 1');
      await handle.query('UPDATE accounts SET amount = 2 WHERE id = 1').catch(() => undefined);
      const end = await commit(deferred, lease);
      await holder.rollback();
      holder.release();
      expect(end).toMatchObject({ kind: 'failed' });
      expect(unitOfWork().isConflict((end as { error: unknown }).error)).toBe(true);
      expect(await effects()).toEqual([]);
      expect(await stateOf(lease)).toBe('in_progress');
    });
  });

  async function rowsOf(table: string): Promise<number> {
    const [[row]] = await pool.query<RowDataPacket[]>(`SELECT count(*) AS found FROM ${table}`);
    return Number(row?.found);
  }

  it('deletes expired records and keeps the others', async () => {
    const kept = await acquired();
    const expired = await Promise.all(
      Array.from({ length: 25 }, () => acquired({ recordRetentionMs: 1, maxExecutionMs: 1 })),
    );
    const before = await rowsOf('idempotency_records');
    const report = await store.deleteExpired({ batchSize: 10, pause: 0 });
    expect(report.deleted).toBeGreaterThanOrEqual(expired.length);
    expect(report.batches).toBeGreaterThan(2);
    expect(await rowsOf('idempotency_records')).toBe(before - report.deleted);
    expect((await store.inspect(kept.recordKey, { timeoutMs: TIMEOUT_MS }))?.state).toBe(
      'in_progress',
    );
  });
}
