import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { postgresBlobs, type PostgresExecutor } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import type {
  IsolationLevel,
  PostgresUnitOfWork,
  SqlTransaction,
  TransactionOptions,
  TransactionValue,
} from 'nestjs-idempotency/transactions';
import { isRunning } from '../../support/processes/processes.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { until } from '../../support/waiting/until.js';
import { never, newName, put } from '../blobs/support/blobs.js';

/** An adapter, and the application around it. */
export interface UnitOfWorkUnderTest<Handle> {
  /** The adapter's function. */
  readonly name: string;
  /** Whether `OpenTransaction.lost` is there. */
  readonly reportsLoss: boolean;
  /** Whether `OpenTransaction.cut` is there. */
  readonly canCut: boolean;
  /**
   * Opens what an application would open: the library with a real pool of at most `connections`, and only the error
   * handlers that the library's documentation requires.
   */
  open(url: string, connections: number): Promise<OpenedUnitOfWork<Handle>>;
}

export interface OpenedUnitOfWork<Handle> {
  readonly unitOfWork: PostgresUnitOfWork<Handle>;
  /** The same connections, for a store, where the library has an executor. */
  readonly executor?: PostgresExecutor;
  /** Inserts the row `id` into the table `effects (id text PRIMARY KEY)`, by the library's own means. */
  readonly insert: (handle: Handle, id: string) => Promise<unknown>;
  close(): Promise<unknown>;
}

const LEVELS: readonly IsolationLevel[] = ['read committed', 'repeatable read', 'serializable'];
const TIMEOUT_MS = 60_000;
const RUNS = 50;
const TABLES = `
  CREATE TABLE effects (id text PRIMARY KEY);
  CREATE TABLE doctors (name text PRIMARY KEY, on_call boolean NOT NULL);
  CREATE TABLE bookings (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED);
  CREATE FUNCTION take_your_time() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON bookings DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION take_your_time();
  CREATE TABLE audits (id integer);
  CREATE FUNCTION await_advisory_lock() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER blocked_commit AFTER INSERT ON audits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION await_advisory_lock();
`;
/** What is in them when a test begins. */
const ROWS = `
  DELETE FROM effects; DELETE FROM doctors; DELETE FROM bookings; DELETE FROM audits;
  INSERT INTO doctors VALUES ('Ann', true), ('Bob', true);
`;

/** Parameter values of statements, their types, and their text form. */
const VALUES: readonly [string, string, TransactionValue, string | null][] = [
  ['bytes', 'bytea', Buffer.from([0, 1, 0x7f, 0x80, 0xff, 0x5c, 0x27]), '\\x00017f80ff5c27'],
  [
    'bytes that are a view of a larger buffer',
    'bytea',
    Buffer.from('abcdef').subarray(2, 4),
    '\\x6364',
  ],
  ['bytes in a Uint8Array', 'bytea', Uint8Array.of(0, 255), '\\x00ff'],
  ['no bytes', 'bytea', Buffer.alloc(0), '\\x'],
  ['text', 'text', `it's "$1" \\ ; -- %s {} ? é 💶`, `it's "$1" \\ ; -- %s {} ? é 💶`],
  ['empty text', 'text', '', ''],
  ['text like a number', 'text', '007', '007'],
  ['text like a date', 'text', '2026-11-01T00:00:00.000Z', '2026-11-01T00:00:00.000Z'],
  ['text like JSON', 'text', '{"a": 1}', '{"a": 1}'],
  ['a number', 'integer', 42, '42'],
  ['a number for a larger type', 'bigint', 42, '42'],
  ['zero', 'bigint', 0, '0'],
  ['a negative number', 'bigint', -1, '-1'],
  ['a number beyond 32 bits', 'bigint', 2 ** 40 + 1, '1099511627777'],
  ['the largest safe integer', 'bigint', Number.MAX_SAFE_INTEGER, '9007199254740991'],
  ['true', 'boolean', true, 'true'],
  ['false', 'boolean', false, 'false'],
  ['null for bytes', 'bytea', null, null],
  ['null for text', 'text', null, null],
  ['null for a number', 'bigint', null, null],
];

/** @returns what rethrows the error of a statement, for the transaction. */
function noteIn(failures: unknown[]): (error: unknown) => never {
  return (error) => {
    failures.push(error);
    throw error;
  };
}

/** The contract of every adapter, on a real server. */
export function describeUnitOfWork<Handle>(adapter: UnitOfWorkUnderTest<Handle>): void {
  describe(adapter.name, () => describeContract(adapter));
}

function describeContract<Handle>(adapter: UnitOfWorkUnderTest<Handle>): void {
  const server = usePostgres();
  let url: string;
  let observer: Pool;
  let opened: OpenedUnitOfWork<Handle> | undefined;

  type Transaction = SqlTransaction<Handle>;

  beforeAll(async () => {
    url = await server.newDatabase({
      deadlock_timeout: '50ms',
      // Without it, a backend would continue to sleep after its client disconnects.
      client_connection_check_interval: '50ms',
    });
    // Its first connection stays: the defaults that a test sets are those of later ones.
    observer = openPostgresPool(url, { idleTimeoutMillis: 0 });
    await observer.query(TABLES);
  });
  beforeEach(() => observer.query(ROWS));
  afterEach(async () => {
    await opened?.close();
    opened = undefined;
  });
  afterAll(() => observer.end());

  async function open(connections = 2): Promise<OpenedUnitOfWork<Handle>> {
    return (opened = await adapter.open(url, connections));
  }

  function options(isolation?: IsolationLevel): TransactionOptions {
    return { isolation, timeoutMs: TIMEOUT_MS };
  }

  async function effects(): Promise<string[]> {
    const { rows } = await observer.query<{ id: string }>('SELECT id FROM effects ORDER BY id');
    return rows.map(({ id }) => id);
  }

  async function shown(tx: Transaction, setting: string): Promise<unknown> {
    const [row] = await tx.query(`SELECT current_setting($1) AS setting`, [setting]);
    return (row as { setting: unknown }).setting;
  }

  async function backendOf(tx: Transaction): Promise<number> {
    const [row] = await tx.query('SELECT pg_backend_pid() AS pid', []);
    return (row as { pid: number }).pid;
  }

  /** Waits until the client has noticed the end as well: before that, the pool still hands out the connection. */
  async function untilGone(pid: number): Promise<void> {
    await until(async () => {
      // The backend leaves pg_stat_activity before it closes its connection.
      return !isRunning(pid) && !(await isListed(pid));
    });
    await setImmediate();
    await setImmediate();
  }

  const isListed = async (pid: number, condition = 'true') => {
    const text = `SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND ${condition}`;
    return (await observer.query(text, [pid])).rowCount === 1;
  };

  const untilAsleep = (pid: number) => until(() => isListed(pid, `wait_event = 'PgSleep'`));

  async function terminate(pid: number): Promise<void> {
    await observer.query('SELECT pg_terminate_backend($1)', [pid]);
    await untilGone(pid);
  }

  /** Some libraries throw synchronously, others reject. */
  async function insertLater(
    insert: OpenedUnitOfWork<Handle>['insert'],
    handle: Handle,
  ): Promise<void> {
    await insert(handle, 'late');
  }

  /** Expects that the next transaction works, on another connection than the dead backend's. */
  async function expectTheNextRunToWork(deadBackend?: number): Promise<void> {
    const { unitOfWork, insert } = opened!;
    const pid = await unitOfWork.run(options(), async (tx) => {
      await insert(tx.handle, 'next');
      return backendOf(tx);
    });
    expect(pid).not.toBe(deadBackend);
    expect(await effects()).toContain('next');
  }

  /**
   * Expects that a transaction whose connection ends during `work` rejects and writes nothing, and that the next one
   * works.
   *
   * @returns the error.
   */
  async function expectLost(
    work: (tx: Transaction, pid: number, insert: (id: string) => Promise<unknown>) => unknown,
  ): Promise<unknown> {
    const { unitOfWork, insert } = await open(1);
    let pid: number | undefined;
    const run = unitOfWork.run(options(), async (tx) => {
      pid = await backendOf(tx);
      await insert(tx.handle, 'one');
      await work(tx, pid, (id) => insert(tx.handle, id));
    });
    await expect(run).rejects.toThrow();
    await untilGone(pid!);
    expect(await effects()).toEqual([]);
    await expectTheNextRunToWork(pid);
    return run.catch((error: unknown) => error);
  }

  describe('a transaction', () => {
    it('is committed when its work resolves, and returns the value of the work', async () => {
      const { unitOfWork, insert } = await open();
      const result = await unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        expect(await effects()).toEqual([]);
        return 'done';
      });
      expect(result).toBe('done');
      expect(await effects()).toEqual(['one']);
    });

    it.each(LEVELS)(
      'has a blob of postgresBlobs with its writes, or neither: %s',
      async (level) => {
        const { unitOfWork, insert } = await open();
        const blobs = postgresBlobs({ url, chunkBytes: 100_000 });
        try {
          await blobs.migrate();
          const [kept, undone, bytes] = [newName(), newName(), randomBytes(250_000)];
          const run = (name: typeof kept, id: string, last?: Error) =>
            unitOfWork.run(options(level), async (tx) => {
              await insert(tx.handle, id);
              await put(blobs.inTransaction(tx), name, bytes);
              expect(await blobs.get(name, { signal: never })).toBeUndefined();
              if (last !== undefined) throw last;
            });
          await run(kept, 'one');
          await expect(run(undone, 'two', new Error('declined'))).rejects.toThrow('declined');
          expect(await effects()).toEqual(['one']);
          expect(await blobs.get(undone, { signal: never })).toBeUndefined();
          const stored = await buffer((await blobs.get(kept, { signal: never }))!);
          expect(stored.equals(bytes)).toBe(true);
          const { rowCount } = await observer.query('SELECT 1 FROM idempotency_blobs');
          expect(rowCount).toBe(3);
          await blobs.delete(kept);
        } finally {
          await blobs.close();
        }
      },
    );

    it('is over when run resolves, however long the commit takes', async () => {
      const { unitOfWork } = await open();
      await unitOfWork.run(options(), (tx) =>
        tx.query('INSERT INTO bookings VALUES ($1::integer)', [1]),
      );
      const { rowCount } = await observer.query('SELECT 1 FROM bookings');
      expect(rowCount).toBe(1);
    });

    it('calls its work once, in the async context of the caller', async () => {
      const { unitOfWork } = await open();
      const caller = new AsyncLocalStorage<string>();
      const contexts: unknown[] = [];
      await caller.run('this request', () =>
        unitOfWork.run(options(), async (tx) => {
          contexts.push(caller.getStore());
          await tx.query('SELECT 1', []);
          contexts.push(caller.getStore());
        }),
      );
      expect(contexts).toEqual(['this request', 'this request']);
    });

    it('is rolled back when its work rejects, and throws the same error', async () => {
      const { unitOfWork, insert } = await open();
      const failure = new Error('no such customer');
      const run = unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        await tx.query('INSERT INTO effects VALUES ($1::text)', ['two']);
        throw failure;
      });
      expect(await run.catch((error: unknown) => error)).toBe(failure);
      expect(await effects()).toEqual([]);
    });

    it('is rolled back before run rejects', async () => {
      const { unitOfWork, insert } = await open();
      const run = unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        throw new Error('no such customer');
      });
      await run.catch(() => undefined);
      const { rows } = await observer.query(
        `SELECT state FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
           AND backend_type = 'client backend'`,
      );
      expect(rows).toEqual([]);
    });

    it('is rolled back when a statement of the handle failed', async () => {
      const { unitOfWork, insert } = await open();
      const failures: unknown[] = [];
      const run = unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        await insert(tx.handle, 'one').catch(noteIn(failures));
      });
      const thrown = await run.catch((error: unknown) => error);
      expect(thrown).toBeInstanceOf(Error);
      expect(failures).toHaveLength(1);
      expect(thrown).toBe(failures[0]);
      expect(await effects()).toEqual([]);
    });

    it('rejects further statements after a failed one, even if the handle ignored its error', async () => {
      const { unitOfWork, insert } = await open();
      const run = unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        await insert(tx.handle, 'one').catch(() => undefined);
        await tx.query('SELECT 1', []);
      });
      await expect(run).rejects.toThrow();
      expect(await effects()).toEqual([]);
    });

    it('is not committed when a statement failed, even if the work resolves, and run rejects', async () => {
      const { unitOfWork, insert } = await open();
      const run = unitOfWork.run(options(), async ({ handle }) => {
        await insert(handle, 'one');
        await insert(handle, 'one').catch(() => undefined);
      });
      await expect(run).rejects.toThrow();
      expect(await effects()).toEqual([]);
      await expectTheNextRunToWork();
    });

    it('names what the server says of a statement of the store, without the statement', async () => {
      const { unitOfWork } = await open();
      const run = unitOfWork.run(options(), (tx) =>
        tx.query(`SELECT '?' AS mark, $2::text, $1::text, $2::text FROM nothing`, ['one', 'two']),
      );
      const { message } = (await run.catch((error: unknown) => error)) as Error;
      expect(message).toContain('relation "nothing" does not exist');
      expect(message).not.toMatch(/SELECT|one|two/);
    });

    it('is not committed when COMMIT fails, and run rejects', async () => {
      const { unitOfWork, insert } = await open();
      let isWorkDone = false;
      const run = unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        await tx.query('INSERT INTO bookings VALUES ($1::integer), ($1::integer)', [1]);
        isWorkDone = true;
      });
      const error = await run.catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(Error);
      expect(isWorkDone).toBe(true);
      expect(unitOfWork.isConflict(error)).toBe(false);
      expect(await effects()).toEqual([]);
    });

    it.each(['resolved', 'rejected'])(
      'rejects statements of its handle once its work has %s',
      async (how) => {
        const { unitOfWork, insert } = await open(1);
        let late: Handle | undefined;
        const run = unitOfWork.run(options(), async ({ handle }) => {
          late = handle;
          if (how === 'rejected') throw new Error('no such customer');
        });
        await run.catch(() => undefined);
        await expect(insertLater(insert, late!)).rejects.toThrow();
        // By now, another request has the connection.
        await unitOfWork.run(options(), async ({ handle }) => {
          await insert(handle, 'next');
          await expect(insertLater(insert, late!)).rejects.toThrow();
        });
        expect(await effects()).toEqual(['next']);
      },
    );

    it('rejects statements of its handle during COMMIT', async () => {
      const { unitOfWork, insert } = await open(1);
      const holder = await observer.connect();
      await holder.query('SELECT pg_advisory_lock(1)');
      let late: Handle | undefined;
      let pid: number | undefined;
      const run = unitOfWork.run(options(), async (tx) => {
        late = tx.handle;
        pid = await backendOf(tx);
        await tx.query('INSERT INTO audits VALUES ($1::integer)', [1]);
      });
      await until(
        async () => pid !== undefined && (await isListed(pid, `wait_event_type = 'Lock'`)),
      );
      const inserting = insertLater(insert, late!);
      await holder.query('SELECT pg_advisory_unlock(1)');
      holder.release();
      await expect(inserting).rejects.toThrow();
      await run;
      expect(await effects()).toEqual([]);
    });

    it('does not see what a concurrent one has not committed', async () => {
      const { unitOfWork, insert } = await open(2);
      const seen: unknown[] = [];
      await unitOfWork.run(options(), async (outer) => {
        await insert(outer.handle, 'outer');
        await unitOfWork.run(options(), async (inner) => {
          seen.push(await inner.query('SELECT id FROM effects', []));
          await insert(inner.handle, 'inner');
        });
        seen.push(await outer.query('SELECT id FROM effects ORDER BY id', []));
      });
      expect(seen).toEqual([[], [{ id: 'inner' }, { id: 'outer' }]]);
    });

    it(`releases its connection, however it ends: ${RUNS} of them over two`, async () => {
      const { unitOfWork, insert } = await open(2);
      const ends = Array.from({ length: RUNS }, async (_, n) => {
        const run = unitOfWork.run(options(), async (tx) => {
          await insert(tx.handle, `row ${n}`);
          if (n % 3 === 1) throw new Error('no such customer');
          if (n % 3 === 2) await tx.query('SELECT 1/0', []);
        });
        return run.then(
          () => n % 3 === 0,
          () => n % 3 !== 0,
        );
      });
      expect(await Promise.all(ends)).toEqual(ends.map(() => true));
      expect(await effects()).toHaveLength(Math.ceil(RUNS / 3));
      await expectTheNextRunToWork();
    });

    it('does not begin without a connection, and run rejects', async () => {
      const { unitOfWork } = await open(1);
      const database = new URL(url).pathname.slice(1);
      const pid = await unitOfWork.run(options(), backendOf);
      const elsewhere = openPostgresPool(
        Object.assign(new URL(url), { pathname: 'postgres' }).href,
      );
      try {
        await elsewhere.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`);
        await terminate(pid);
        let calls = 0;
        const run = unitOfWork.run(options(), async () => void (calls += 1));
        await expect(run).rejects.toThrow();
        expect(calls).toBe(0);
      } finally {
        await elsewhere.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`);
        await elsewhere.end();
      }
      await expectTheNextRunToWork();
    });
  });

  describe('the isolation level', () => {
    const alter = (change: string) =>
      observer.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} ${change}`);
    const setDefault = (level: IsolationLevel) =>
      alter(`SET default_transaction_isolation = '${level}'`);

    afterEach(() => alter('RESET default_transaction_isolation'));

    it.each(LEVELS)('is %s when requested', async (level) => {
      const other = LEVELS.find((name) => name !== level)!;
      await setDefault(other);
      const { unitOfWork } = await open();
      const found = await unitOfWork.run(options(level), (tx) =>
        shown(tx, 'transaction_isolation'),
      );
      expect(found).toBe(level);
    });

    it.each(LEVELS)('is %s when that is the default and none is requested', async (level) => {
      await setDefault(level);
      const { unitOfWork } = await open();
      const found = await unitOfWork.run(options(), (tx) => shown(tx, 'transaction_isolation'));
      expect(found).toBe(level);
    });

    it('of one transaction is not that of the next', async () => {
      const { unitOfWork } = await open(1);
      const isolation = (tx: Transaction) => shown(tx, 'transaction_isolation');
      expect(await unitOfWork.run(options('serializable'), isolation)).toBe('serializable');
      expect(await unitOfWork.run(options(), isolation)).toBe('read committed');
    });
  });

  describe('query', () => {
    async function rowsOf(text: string, values: Parameters<Transaction['query']>[1]) {
      const { unitOfWork } = opened ?? (await open());
      return unitOfWork.run(options(), (tx) => tx.query(text, values));
    }

    it('takes each kind of value unchanged', async () => {
      await open();
      const taken: unknown[] = [];
      for (const [what, type, value] of VALUES) {
        const [row] = await rowsOf(`SELECT $1::${type}::text AS value`, [value]);
        taken.push([what, (row as { value: unknown }).value]);
      }
      expect(taken).toEqual(VALUES.map(([what, , , text]) => [what, text]));
    });

    it('takes as many bytes as the largest outcome', async () => {
      const bytes = Buffer.alloc(5 * 1024 * 1024, Buffer.from([0, 1, 0x5c, 0x80, 0xff]));
      const digest = createHash('sha256').update(bytes).digest('hex');
      const text = `SELECT encode(sha256($1::bytea), 'hex') AS digest`;
      expect(await rowsOf(text, [bytes])).toEqual([{ digest }]);
    });

    it('takes a value in two places, and values in any order', async () => {
      const text =
        'SELECT $2::text AS b, $1::bigint::text AS a, $2::text AS again, $1::bigint + 1 > 1';
      expect(await rowsOf(`${text} AS more`, [7, `Bob's`])).toEqual([
        { b: `Bob's`, a: '7', again: `Bob's`, more: true },
      ]);
    });

    it('returns the rows of a statement, or none', async () => {
      await open();
      const all = 'SELECT name, on_call FROM doctors ORDER BY name';
      expect(await rowsOf(all, [])).toEqual([
        { name: 'Ann', on_call: true },
        { name: 'Bob', on_call: true },
      ]);
      const update = 'UPDATE doctors SET on_call = $1::boolean WHERE name = $2::text';
      expect(await rowsOf(`${update} RETURNING name`, [false, 'Bob'])).toEqual([{ name: 'Bob' }]);
      expect(await rowsOf(`${update} RETURNING name`, [false, 'Eve'])).toEqual([]);
      expect(await rowsOf(update, [true, 'Bob'])).toEqual([]);
      const insert = 'INSERT INTO doctors VALUES ($1::text, true) RETURNING name';
      expect(await rowsOf(insert, ['Eve'])).toEqual([{ name: 'Eve' }]);
      expect(
        await rowsOf('DELETE FROM doctors WHERE name = $1::text RETURNING name', ['Eve']),
      ).toEqual([{ name: 'Eve' }]);
      const cte = `WITH changed AS (${update} RETURNING name) SELECT name FROM changed`;
      expect(await rowsOf(cte, [false, 'Ann'])).toEqual([{ name: 'Ann' }]);
    });

    it('can change settings of the transaction only', async () => {
      const { unitOfWork } = await open(1);
      const found = await unitOfWork.run(options(), async (tx) => {
        await tx.query(`SELECT set_config('statement_timeout', $1::text, true)`, ['54321']);
        return shown(tx, 'statement_timeout');
      });
      expect(found).toBe('54321ms');
      const next = await unitOfWork.run(options(), (tx) => shown(tx, 'statement_timeout'));
      expect(next).toBe('0');
    });

    it('runs in the transaction of the handle', async () => {
      const { unitOfWork, insert } = await open();
      const rows = await unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        return tx.query('SELECT id FROM effects', []);
      });
      expect(rows).toEqual([{ id: 'one' }]);
    });
  });

  describe('a conflict', () => {
    /** Runs `work` in two concurrent transactions; `meet` waits until both have called it. */
    async function together(
      isolation: IsolationLevel,
      work: (tx: Transaction, n: number, meet: () => Promise<void>) => Promise<unknown>,
    ): Promise<{ failures: unknown[]; workDone: number }> {
      const { unitOfWork } = await open(2);
      const waiting: (() => void)[] = [];
      const meet = () =>
        new Promise<void>((resolve) => {
          waiting.push(resolve);
          if (waiting.length === 2) for (const go of waiting.splice(0)) go();
        });
      let workDone = 0;
      const ends = await Promise.allSettled(
        [0, 1].map((n) =>
          unitOfWork.run(options(isolation), async (tx) => {
            await work(tx, n, meet);
            workDone += 1;
          }),
        ),
      );
      const failures = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []));
      return { failures, workDone };
    }

    it('is a serialization failure at COMMIT', async () => {
      const { failures, workDone } = await together('serializable', async (tx, n, meet) => {
        const [row] = await tx.query(
          'SELECT count(*)::integer AS n FROM doctors WHERE on_call',
          [],
        );
        expect(row).toEqual({ n: 2 });
        await meet();
        const name = ['Ann', 'Bob'][n]!;
        await tx.query('UPDATE doctors SET on_call = false WHERE name = $1::text', [name]);
        await meet();
      });
      expect(workDone).toBe(2);
      expect(failures).toHaveLength(1);
      expect(opened!.unitOfWork.isConflict(failures[0])).toBe(true);
      const { rowCount } = await observer.query('SELECT 1 FROM doctors WHERE on_call');
      expect(rowCount).toBe(1);
    });

    it('is a serialization failure of a statement', async () => {
      const { failures } = await together('repeatable read', async (tx, _, meet) => {
        await tx.query('SELECT 1 FROM doctors', []);
        await meet();
        await tx.query(`UPDATE doctors SET on_call = NOT on_call WHERE name = 'Ann'`, []);
      });
      expect(failures).toHaveLength(1);
      expect(opened!.unitOfWork.isConflict(failures[0])).toBe(true);
    });

    it('is a deadlock', async () => {
      const { failures } = await together('read committed', async (tx, n, meet) => {
        const update = 'UPDATE doctors SET on_call = false WHERE name = $1::text';
        await tx.query(update, [['Ann', 'Bob'][n]!]);
        await meet();
        await tx.query(update, [['Bob', 'Ann'][n]!]);
      });
      expect(failures).toHaveLength(1);
      expect(opened!.unitOfWork.isConflict(failures[0])).toBe(true);
    });

    it('is also detected in a statement of the handle', async () => {
      const { unitOfWork, insert } = await open(2);
      const failures: unknown[] = [];
      const run = unitOfWork.run(options('serializable'), async (first) => {
        await first.query('SELECT 1 FROM effects', []);
        await unitOfWork.run(options('serializable'), async (second) => {
          await second.query('SELECT 1 FROM effects', []);
          await insert(second.handle, 'second');
        });
        await insert(first.handle, 'first').catch(noteIn(failures));
      });
      const thrown = await run.catch((error: unknown) => error);
      expect(failures).toEqual([thrown]);
      expect(unitOfWork.isConflict(thrown)).toBe(true);
    });

    it('is not a unique violation, an error of the application, or undefined', async () => {
      const { unitOfWork, insert } = await open();
      const run = unitOfWork.run(options(), async (tx) => {
        await insert(tx.handle, 'one');
        await insert(tx.handle, 'one');
      });
      const violation = await run.catch((error: unknown) => error);
      expect(violation).toBeInstanceOf(Error);
      const others = [violation, new Error('no such customer'), undefined, null, 'P2034', 40001];
      expect(others.map((error) => unitOfWork.isConflict(error))).toEqual(others.map(() => false));
    });
  });

  describe('when the connection is lost', () => {
    /** How a backend can end while its transaction is idle. */
    const idle: [string, (pid: number, tx: Transaction) => Promise<void>][] = [
      ['by an administrator', terminate],
      [
        'by idle_in_transaction_session_timeout',
        async (pid, tx) => {
          await tx.query(
            `SELECT set_config('idle_in_transaction_session_timeout', '50', true)`,
            [],
          );
          await untilGone(pid);
        },
      ],
      [
        'by transaction_timeout',
        async (pid, tx) => {
          await tx.query(`SELECT set_config('transaction_timeout', '50', true)`, []);
          await untilGone(pid);
        },
      ],
    ];
    /** How it can end while a statement runs. */
    const busy: [string, (pid: number) => Promise<void>, string][] = [
      ['by an administrator', terminate, '0'],
      ['by transaction_timeout', untilGone, '500'],
    ];

    it.each(idle)('%s between two statements, the next one and run reject', async (_, end) => {
      const failures: unknown[] = [];
      const thrown = await expectLost(async (tx, pid, insert) => {
        await end(pid, tx);
        await insert('two').catch(noteIn(failures));
      });
      expect(failures).toEqual([thrown]);
      expect(opened!.unitOfWork.isConflict(thrown)).toBe(false);
    });

    it.each(idle)('%s after the last statement, run rejects', async (_, end) => {
      let isWorkDone = false;
      await expectLost(async (tx, pid) => {
        await end(pid, tx);
        isWorkDone = true;
      });
      expect(isWorkDone).toBe(true);
    });

    it.each(busy)('%s during a statement, it and run reject', async (_, end, timeout) => {
      const failures: unknown[] = [];
      const thrown = await expectLost(async (tx, pid) => {
        await tx.query(`SELECT set_config('transaction_timeout', $1::text, true)`, [timeout]);
        const sleep = tx.query('SELECT pg_sleep(600)::text', []).catch(noteIn(failures));
        await Promise.all([sleep, untilAsleep(pid).then(() => end(pid))]);
      });
      expect(failures).toEqual([thrown]);
    });

    it('and the work then rejects with its own error, that error is thrown', async () => {
      const failure = new Error('no such customer');
      const thrown = await expectLost(async (_, pid) => {
        await terminate(pid);
        throw failure;
      });
      expect(thrown).toBe(failure);
    });

    it('many at once, each run rejects, and the pool has connections afterwards', async () => {
      const { unitOfWork, insert } = await open(4);
      const pids: number[] = [];
      const runs = Array.from({ length: 4 }, (_, n) =>
        unitOfWork.run(options(), async (tx) => {
          const pid = await backendOf(tx);
          pids.push(pid);
          await insert(tx.handle, `row ${n}`);
          await until(() => pids.length === 4);
          await untilGone(pid);
        }),
      );
      await until(() => pids.length === 4);
      await observer.query('SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid', [
        pids,
      ]);
      const ends = await Promise.allSettled(runs);
      expect(ends.map(({ status }) => status)).toEqual(runs.map(() => 'rejected'));
      expect(await effects()).toEqual([]);
      await expectTheNextRunToWork();
    });

    if (adapter.reportsLoss) {
      it('its signal aborts while the work waits for something else', async () => {
        const { unitOfWork } = await open(1);
        const reported: unknown[] = [];
        const run = unitOfWork.run(options(), async (tx) => {
          const { lost } = tx;
          reported.push(lost!.aborted);
          await terminate(await backendOf(tx));
          await until(() => lost!.aborted);
          reported.push(lost!.aborted);
        });
        await expect(run).rejects.toThrow();
        expect(reported).toEqual([false, true]);
      });

      it('its signal does not abort during or after a successful transaction', async () => {
        const { unitOfWork } = await open(1);
        const signals: AbortSignal[] = [];
        const pid = await unitOfWork.run(options(), async (tx) => {
          signals.push(tx.lost!);
          return backendOf(tx);
        });
        await terminate(pid);
        // The pool may hand out the connection once more before it notices the end.
        await unitOfWork.run(options(), backendOf).catch(() => undefined);
        await expectTheNextRunToWork(pid);
        expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
      });
    } else {
      it('it has no signal', async () => {
        const { unitOfWork } = await open(1);
        expect(await unitOfWork.run(options(), async (tx) => 'lost' in tx)).toBe(false);
      });
    }
  });

  describe('a transaction that is cut', () => {
    if (adapter.canCut) {
      it('ends at once, with the statement that runs in it', async () => {
        await expectLost((tx, pid) => {
          const sleep = tx.query('SELECT pg_sleep(600)::text', []);
          return Promise.all([sleep, untilAsleep(pid).then(() => tx.cut!())]);
        });
      });

      it('is not committed, although its work resolves', async () => {
        await expectLost((tx) => tx.cut!());
      });

      it('does not affect the next one when the cut comes too late', async () => {
        const { unitOfWork, insert } = await open(1);
        let cut: (() => void) | undefined;
        await unitOfWork.run(options(), async (tx) => {
          cut = () => tx.cut!();
        });
        await unitOfWork.run(options(), async (tx) => {
          cut!();
          await insert(tx.handle, 'one');
          await tx.query('SELECT pg_sleep(0.05)::text', []);
        });
        expect(await effects()).toEqual(['one']);
      });
    } else {
      it('is not supported by this library', async () => {
        const { unitOfWork } = await open(1);
        expect(await unitOfWork.run(options(), async (tx) => 'cut' in tx)).toBe(false);
      });
    }
  });
}
