import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  type DeletionReport,
  migrate,
  PostgresIdempotencyStore,
  postgresStore,
} from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { withSqlClock } from '../../support/clocks/injected-clock.js';
import { documentedSql } from '../../support/docs/documented-blocks.js';
import { loadStatements, TableName } from '../../support/internals/postgres.js';
import { afterTest } from '../../support/jest/after-test.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { beginCommand, completeCommand, leaseOf, newToken } from '../../support/stores/commands.js';
import { until } from '../../support/waiting/until.js';
import { CompiledStore } from './support/compiled-store.js';
import { closeAfterTest, ownStore, userPool } from './support/fixture.js';
import { runJanitor } from './support/run-janitor.js';

const server = usePostgres();

describe('deletion', () => {
  let url: string;
  let pool: Pool;

  async function newRecords(): Promise<void> {
    url = await server.newDatabase();
    await migrate({ url });
  }

  beforeAll(newRecords);
  beforeEach(async () => {
    pool = userPool(url);
    await pool.query('TRUNCATE idempotency_records');
  });

  /** Records that expire `seconds` from now (negative: expired), each a millisecond before the last. */
  async function addRecords(count: number, seconds: number): Promise<void> {
    await pool.query(
      `INSERT INTO idempotency_records (record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at)
     SELECT decode(md5(random()::text), 'hex'), 'released', 't', 1, '-', 1, 0,
       now() + $2 * interval '1 second' - number * interval '1 millisecond'
     FROM generate_series(1, $1) AS number`,
      [count, seconds],
    );
  }

  /** An expired record with an incompressible outcome of so many bytes. */
  async function addLargeRecord(bytes: number): Promise<void> {
    await pool.query(
      `INSERT INTO idempotency_records (
       record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at, outcome_header, outcome_body
     ) VALUES ($1, 'completed', 't', 1, '-', 1, 0, now() - interval '1 second', '', $2)`,
      [randomBytes(32), randomBytes(bytes)],
    );
  }

  /** A transaction of the application that prevents VACUUM from removing rows deleted from now on. */
  async function openLongTransaction(): Promise<() => Promise<void>> {
    const connection = await pool.connect();
    await connection.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await connection.query('SELECT 1 FROM idempotency_records LIMIT 1');
    return async () => {
      await connection.query('COMMIT');
      connection.release();
    };
  }

  async function records(): Promise<number> {
    return (await pool.query('SELECT count(*)::integer AS count FROM idempotency_records')).rows[0]
      .count;
  }

  describe('deleteExpired', () => {
    it('deletes all expired records in batches, and no others', async () => {
      await addRecords(25, -10);
      await addRecords(5, 600);
      expect(await ownStore(url).deleteExpired({ batchSize: 10, pause: 0 })).toMatchObject({
        deleted: 25,
        batches: 3,
      });
      expect(await records()).toBe(5);
    });

    it('skips a locked record, and deletes it the next time', async () => {
      await addRecords(3, -10);
      const holder = await pool.connect();
      await holder.query('BEGIN');
      await holder.query('SELECT 1 FROM idempotency_records LIMIT 1 FOR UPDATE');
      const store = ownStore(url);
      expect(await store.deleteExpired()).toMatchObject({ deleted: 2 });
      await holder.query('COMMIT');
      holder.release();
      expect(await store.deleteExpired()).toMatchObject({ deleted: 1 });
    });

    it('does nothing while another process deletes', async () => {
      await addRecords(3, -10);
      const other = await pool.connect();
      const lock = new TableName().advisoryLock('deletion');
      await other.query('BEGIN');
      await other.query(`SELECT pg_advisory_xact_lock(${lock})`);
      const store = ownStore(url);
      expect(await store.deleteExpired()).toMatchObject({ deleted: 0, batches: 0 });
      await other.query('COMMIT');
      other.release();
      expect(await store.deleteExpired()).toMatchObject({ deleted: 3, batches: 1 });
    });

    it('counts what the store has deleted, also in a round that fails later', async () => {
      const store = ownStore(url);
      expect(store.deletedRecords).toBe(0);
      await addRecords(25, -10);
      await store.deleteExpired({ batchSize: 10, pause: 0 });
      expect(store.deletedRecords).toBe(25);
      await addRecords(15, -20);
      await addRecords(1, -10);
      await pool.query(`
      UPDATE idempotency_records SET attempt = 2 WHERE expires_at > now() - interval '15 seconds';
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'planned' USING ERRCODE = '42501'; END $$;
      CREATE TRIGGER refused BEFORE DELETE ON idempotency_records
        FOR EACH ROW WHEN (OLD.attempt = 2) EXECUTE FUNCTION refuse()`);
      afterTest(() => pool.query('DROP FUNCTION refuse() CASCADE'));
      await expect(store.deleteExpired({ batchSize: 10, pause: 0 })).rejects.toThrow('planned');
      expect(store.deletedRecords).toBe(35);
      // What another process deletes is not counted.
      await addRecords(5, -60);
      await ownStore(url)
        .deleteExpired({ batchSize: 5, pause: 0 })
        .catch(() => undefined);
      expect(store.deletedRecords).toBe(35);
    });

    it('reports its duration and the longest batch', async () => {
      await addRecords(20, -10);
      const started = performance.now();
      const { longestBatchMs, tookMs } = await ownStore(url).deleteExpired({
        batchSize: 10,
        pause: 50,
      });
      const elapsedMs = performance.now() - started;
      expect(longestBatchMs).toBeGreaterThan(0);
      // Two batches and the last, which finds nothing, with a pause after each of the two.
      expect(tookMs).toBeGreaterThanOrEqual(longestBatchMs + 2 * 49);
      expect(elapsedMs).toBeGreaterThanOrEqual(tookMs);
    });

    it('deletes fewer per batch when their outcomes are large, but at least one', async () => {
      for (let record = 0; record < 8; record += 1) await addLargeRecord(1024 * 1024);
      const store = ownStore(url);
      expect(await store.deleteExpired({ pause: 0 })).toMatchObject({ deleted: 8, batches: 2 });
      for (let record = 0; record < 2; record += 1) await addLargeRecord(5 * 1024 * 1024);
      expect(await store.deleteExpired({ pause: 0 })).toMatchObject({ deleted: 2, batches: 2 });
      expect(await records()).toBe(0);
    });

    it('does not scan deleted rows again while a long transaction blocks VACUUM', async () => {
      // Whose statistics count the scans of this test alone.
      await newRecords();
      pool = userPool(url);
      const [batches, batchSize] = [40, 25];
      await addRecords(batches * batchSize, -10);
      const end = await openLongTransaction();
      const store = ownStore(url, { connection: { max: 1 } });
      const { deleted } = await store.deleteExpired({ batchSize, pause: 0 });
      expect(deleted).toBe(batches * batchSize);
      // PostgreSQL publishes the statistics of a connection when it ends.
      await store.close();
      const read = async () => {
        const { rows } = await pool.query<{ entries: number }>(
          `SELECT idx_tup_read::integer AS entries FROM pg_stat_user_indexes
         WHERE indexrelname = 'idempotency_records_expires_at_idx'`,
        );
        return rows[0]?.entries ?? 0;
      };
      await until(async () => (await read()) >= deleted);
      await end();
      // With a scan from the beginning each time, it would be twenty times as many.
      expect(await read()).toBeLessThan(2 * deleted);
    });

    it('stops after the current batch when its signal aborts', async () => {
      await addRecords(30, -10);
      const abort = new AbortController();
      const deletion = ownStore(url).deleteExpired({
        batchSize: 10,
        pause: 60_000,
        signal: abort.signal,
      });
      while ((await records()) === 30);
      abort.abort();
      expect(await deletion).toMatchObject({ deleted: 10, batches: 1 });
      expect(await records()).toBe(20);
    });

    it.each([
      [{ batchSize: 0 }, 'The option "batchSize" must be an integer from 1'],
      [{ pause: -1 }, `The option "pause" must be a duration from '0ms'`],
      [{ size: 1 }, '"size" is not an option of deleteExpired'],
    ])('rejects %j', async (options, message) => {
      await expect(ownStore(url).deleteExpired(options as never)).rejects.toThrow(message);
    });
  });

  describe('An open store', () => {
    const reports: DeletionReport[] = [];
    const failures: Error[] = [];
    const often = {
      deleteExpired: { interval: '100ms', batchSize: 10, pause: '0ms' } as const,
      onDeleted: (report: DeletionReport) => void reports.push(report),
      onDeletionError: (error: Error) => void failures.push(error),
    };
    const deleted = () => reports.reduce((sum, report) => sum + report.deleted, 0);

    beforeEach(() => {
      reports.length = 0;
      failures.length = 0;
    });

    it('deletes expired records on a schedule, and reports it', async () => {
      await addRecords(25, -10);
      await addRecords(5, 600);
      const store = ownStore(url, often);
      await store.open();
      await until(() => deleted() === 25);
      await addRecords(12, 0);
      await until(() => deleted() === 37);
      expect(await records()).toBe(5);
    });

    it('deletes each record once when there are several stores', async () => {
      await addRecords(300, -10);
      const stores = [1, 2, 3, 4].map(() => ownStore(url, often));
      await Promise.all(stores.map((store) => store.open()));
      await until(async () => (await records()) === 0);
      await Promise.all(stores.map((store) => store.close()));
      expect(deleted()).toBe(300);
      expect(failures).toEqual([]);
    });

    it('reports failing rounds once, and deletes as soon as a round succeeds', async () => {
      await addRecords(5, -10);
      await ownStore(url, often).open();
      await pool.query('ALTER TABLE idempotency_records RENAME TO elsewhere');
      await until(() => failures.length === 1);
      await pool.query('ALTER TABLE elsewhere RENAME TO idempotency_records');
      await until(() => deleted() === 5);
      expect(failures).toHaveLength(1);
      expect(failures[0]?.message).toContain('does not exist');
    });

    it('deletes nothing on a schedule with deleteExpired: false, or once it is closed', async () => {
      const observer = () => ({ replyMismatched: () => undefined, warned: () => undefined });
      // The only other timers would be those of idle connections.
      const client = userPool(url, { idleTimeoutMillis: 0 });
      const timers = async (options: Pick<typeof often, never> & { deleteExpired?: false }) => {
        const store = new PostgresIdempotencyStore({ client, ...options });
        const before = jest.getTimerCount();
        await store.open();
        const whileOpen = jest.getTimerCount() - before;
        await store.close();
        const afterwards = jest.getTimerCount() - before;
        // Two applications, one round for both, until the last one closes.
        const [one, other] = [observer(), observer()];
        await Promise.all([store.open(one), store.open(other)]);
        const reopened = jest.getTimerCount() - before;
        await store.close(one);
        const byOne = jest.getTimerCount() - before;
        await store.close(other);
        return { whileOpen, afterwards, reopened, byOne, closed: jest.getTimerCount() - before };
      };
      jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
      try {
        const none = { whileOpen: 0, afterwards: 0, reopened: 0, byOne: 0, closed: 0 };
        expect(await timers({})).toEqual({ ...none, whileOpen: 1, reopened: 1, byOne: 1 });
        expect(await timers({ deleteExpired: false })).toEqual(none);
      } finally {
        jest.useRealTimers();
      }
    });

    it('does not keep a process alive', async () => {
      const compiled = await CompiledStore.compile();
      closeAfterTest({ stop: () => compiled.remove() });
      const script = `
      const { postgresStore } = await import(${JSON.stringify(compiled.pathOf('stores/postgres/index'))});
      await postgresStore({ url: ${JSON.stringify(url)} }).open();
      console.log('open');`;
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--input-type=module', '--eval', script],
        // Half of the minimum time to its first round, and far more than the exit takes.
        { timeout: 15_000 },
      );
      expect(stdout).toBe('open\n');
    }, 30_000);

    it('is rejected when its options are invalid', () => {
      const deleteExpired = { interval: 1 };
      expect(() => postgresStore({ url, deleteExpired })).toThrow('"deleteExpired.interval"');
      expect(() => new PostgresIdempotencyStore({ client: pool, deleteExpired })).toThrow(
        '"deleteExpired.interval"',
      );
    });
  });

  describe('The line for pg_cron in the documentation', () => {
    it('deletes expired records, and no others', async () => {
      const [, statement = ''] = /\$\$([^]+)\$\$/.exec(documentedSql('cron.schedule')) ?? [];
      expect(statement).toContain('DELETE FROM');
      await addRecords(25, -10);
      await addRecords(5, 600);
      const holder = await pool.connect();
      await holder.query('BEGIN');
      await holder.query('SELECT 1 FROM idempotency_records LIMIT 1 FOR UPDATE');
      await pool.query(statement);
      expect(await records()).toBe(6);
      await holder.query('COMMIT');
      holder.release();
      await pool.query(statement);
      expect(await records()).toBe(5);
    });
  });

  describe('The deletion takes a record', () => {
    it('in the millisecond of its expiry, at which replays end, and not before', async () => {
      await pool.query('CREATE TABLE store_clock AS SELECT to_timestamp(1900000000) AS at');
      const statements = loadStatements(new TableName(), (text) =>
        withSqlClock(text, '(SELECT at FROM store_clock)'),
      );
      const step = (ms: number) =>
        pool.query(`UPDATE store_clock SET at = at + $1 * interval '1 millisecond'`, [ms]);
      const store = new PostgresIdempotencyStore({ client: pool, statements });
      const begin = beginCommand();
      const begun = await store.begin(begin);
      const complete = completeCommand();
      await store.complete(leaseOf(begin, 'fence' in begun ? begun.fence : -1), complete);
      await step(complete.retentionMs - 1);
      expect(await store.deleteExpired()).toMatchObject({ deleted: 0 });
      const duplicate = { ...begin, token: newToken() };
      expect(await store.begin(duplicate)).toMatchObject({ kind: 'completed', retentionLeftMs: 1 });
      await step(1);
      expect(await store.deleteExpired()).toMatchObject({ deleted: 1 });
      expect(await store.begin(duplicate)).toMatchObject({ kind: 'acquired', attempt: 1 });
    });
  });
});

describe('While first requests come and go', () => {
  it.each([false, true])(
    'each record is deleted once it has expired (a long transaction: %s)',
    async (hasLongTransaction) => {
      const { records, deleted, left } = await runJanitor(await server.newDatabase(), {
        rate: 300,
        seconds: 2,
        retentionMs: 300,
        intervalMs: 200,
        hasLongTransaction,
      });
      expect(records).toBeGreaterThan(0);
      expect(deleted).toBe(records);
      expect(left).toBe(0);
    },
    60_000,
  );
});
