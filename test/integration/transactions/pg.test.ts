import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import openKnex from 'knex';
import { CamelCasePlugin, Kysely, ParseJSONResultsPlugin, PostgresDialect } from 'kysely';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { knexUnitOfWork } from 'nestjs-idempotency/knex';
import { kyselyUnitOfWork } from 'nestjs-idempotency/kysely';
import {
  type PgTransaction,
  pgUnitOfWork,
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from 'nestjs-idempotency/pg';
import { migrate } from 'nestjs-idempotency/postgres';
import { Client, type Pool, Query, type Submittable } from 'pg';
import type { UnitOfWork } from '../../support/internals/core.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { ShiftingRelay } from '../../support/postgres/shifting-relay.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import { until } from '../../support/waiting/until.js';
import { closeAfterTest, ownStore, throughPort, userPool } from '../postgres/support/fixture.js';
import { TransactionalAttempt } from '../postgres/support/transactional-attempt.js';
import { adapterNames, adapterOf } from './adapters/index.js';
import { pg } from './adapters/pg.js';
import { startHastyRelay } from './support/hasty-relay.js';
import { useDatabase } from './support/use-database.js';
import { describeUnitOfWork, type OpenedUnitOfWork } from './unit-of-work-suite.js';

describeUnitOfWork(pg);

describe('pgUnitOfWork', () => {
  const OPTIONS = { isolation: undefined, timeoutMs: 60_000 };

  /** Like those of pg-cursor and pg-query-stream, which receive errors by `handleError`. */
  class TestCursor implements Submittable {
    readonly errors: Error[] = [];
    isSubmitted = false;

    submit(): void {
      this.isSubmitted = true;
    }

    handleError(error: Error): void {
      this.errors.push(error);
    }
  }

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'postgres://127.0.0.1/shop'],
    ['a single client', new Client()],
  ])('rejects %s', (_, pool) => {
    const create = () => pgUnitOfWork(pool as unknown as Pool);
    expect(create).toThrow(IdempotencyOptionsError);
    expect(create).toThrow('a Pool of pg 8');
  });

  describe('on a real server', () => {
    const database = useDatabase();

    it('provides handlers with typed rows, and only with queries', async () => {
      const ids = await pgUnitOfWork(database.pool).run(OPTIONS, async ({ handle }) => {
        expect(Object.keys(handle)).toEqual(['query']);
        const text = 'INSERT INTO effects VALUES ($1) RETURNING id';
        const { rows } = await handle.query<{ id: string }>({ text, values: ['one'] });
        return rows.map(({ id }) => id.toUpperCase());
      });
      expect(ids).toEqual(['ONE']);
    });

    it('throws the reason why it did not commit, and why a handle is over', async () => {
      const unitOfWork = pgUnitOfWork(database.pool);
      let late: () => Promise<unknown> = () => Promise.resolve();
      const run = unitOfWork.run(OPTIONS, async ({ handle }) => {
        late = () => handle.query('SELECT 1');
        await handle.query('SELECT 1/0').catch(() => undefined);
      });
      await expect(run).rejects.toThrow(TransactionAbortedError);
      await expect(late()).rejects.toThrow(TransactionOverError);
    });

    describe('a handle whose transaction is over', () => {
      let handle: PgTransaction<Pool>;
      beforeEach(async () => {
        const unitOfWork = pgUnitOfWork(database.pool);
        await unitOfWork.run(OPTIONS, async (transaction) => void (handle = transaction.handle));
      });

      type Received = (error: Error) => void;
      it.each<[string, (received: Received) => unknown]>([
        ['after the text', (received) => handle.query('SELECT 1', received)],
        ['after the values', (received) => handle.query('SELECT $1', [1], received)],
        ['after an empty list of values', (received) => handle.query('SELECT 1', [], received)],
        ['after a configuration', (received) => handle.query({ text: 'SELECT 1' }, received)],
        [
          'inside a configuration',
          (received) => handle.query({ text: 'SELECT 1', callback: received } as { text: string }),
        ],
      ])('calls a callback %s, and returns undefined', async (_, query) => {
        const error = await new Promise((received) => {
          expect(query(received)).toBeUndefined();
        });
        expect(error).toBeInstanceOf(TransactionOverError);
      });

      it('returns a submittable such as a cursor, and reports the error to it later', async () => {
        const cursor = new TestCursor();
        expect(handle.query(cursor)).toBe(cursor);
        expect(cursor.errors).toEqual([]);
        await new Promise(setImmediate);
        expect(cursor.errors).toEqual([expect.any(TransactionOverError)]);
        expect(cursor.isSubmitted).toBe(false);
      });

      it('calls the listeners of a query of pg, or its callback', async () => {
        const error = await new Promise((received) => {
          const query = new Query('SELECT 1');
          query.on('error', received);
          expect(handle.query(query)).toBe(query);
        });
        expect(error).toBeInstanceOf(TransactionOverError);
        const second = await new Promise((received) => {
          Reflect.apply(handle.query, handle, [new Query('SELECT 1'), received]);
        });
        expect(second).toBeInstanceOf(TransactionOverError);
      });
    });

    it.each([
      'BEGIN',
      'begin isolation level serializable',
      'Start Transaction',
      'COMMIT',
      'commit;',
      'COMMIT AND CHAIN',
      'END',
      'ABORT',
      'ROLLBACK',
      'rollback work',
      `PREPARE TRANSACTION 'one'`,
      '\n\t COMMIT',
      '-- at last\n/* it is done */ COMMIT',
      ';COMMIT',
      'ROLLBACK -- to one\n WORK',
      'BEGIN; SELECT 1; COMMIT',
    ])('rejects %j in handlers', async (text) => {
      const rejections: unknown[] = [];
      await pgUnitOfWork(database.pool).run(OPTIONS, async ({ handle }) => {
        await handle.query(`INSERT INTO effects VALUES ('one')`);
        const requests = [handle.query(text), handle.query({ text })];
        requests.push(new Promise((_, reject) => handle.query(text, reject)));
        for (const request of requests) {
          await request.catch((error: unknown) => rejections.push(error));
        }
      });
      expect(rejections).toHaveLength(3);
      for (const error of rejections) expect(error).toBeInstanceOf(TransactionControlError);
      expect(await database.effects()).toEqual(['one']);
    });

    it('allows savepoints, and statements that only resemble transaction control', async () => {
      await pgUnitOfWork(database.pool).run(OPTIONS, async ({ handle }) => {
        await handle.query('SAVEPOINT one');
        for (const rollback of ['rollback to one', 'ROLLBACK WORK /* back */ TO SAVEPOINT one']) {
          await handle.query(`INSERT INTO effects VALUES ('undone')`);
          await handle.query(rollback);
        }
        await handle.query('RELEASE one');
        await handle.query('PREPARE commit_later AS SELECT 1');
        await handle.query(`/* COMMIT */ INSERT INTO effects VALUES ('COMMIT') -- COMMIT`);
      });
      expect(await database.effects()).toEqual(['COMMIT']);
    });

    it('keeps the connection of a rolled-back transaction, and closes one whose COMMIT failed', async () => {
      const unitOfWork = pgUnitOfWork(database.pool);
      await database.pool.query(
        'CREATE TABLE bookings (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)',
      );
      const backend = async () => {
        const { rows } = await database.pool.query<{ pid: number }>(
          'SELECT pg_backend_pid() AS pid',
        );
        return rows[0]!.pid;
      };
      const first = await backend();
      const failing = unitOfWork.run(OPTIONS, () => Promise.reject(new Error('no such customer')));
      await expect(failing).rejects.toThrow('no such customer');
      expect(await backend()).toBe(first);

      const rejected = unitOfWork.run(OPTIONS, ({ handle }) =>
        handle.query('INSERT INTO bookings VALUES (1), (1)'),
      );
      await expect(rejected).rejects.toThrow('duplicate key');
      expect(await backend()).not.toBe(first);
    });

    it('survives the loss of a connection during checkout, and so does the process', async () => {
      const relay = await startHastyRelay(database.url);
      const hasty = openPostgresPool(relay.url);
      try {
        let calls = 0;
        const run = pgUnitOfWork(hasty).run(OPTIONS, async () => void (calls += 1));
        await expect(run).rejects.toThrow();
        expect(calls).toBe(0);
        expect(hasty.totalCount).toBe(0);
      } finally {
        await hasty.end();
        await relay.stop();
      }
    });
  });
});

describe('replies', () => {
  const LOCK = 'server_version_num';
  const COMPLETE = "(SELECT 'stored' FROM stored";
  const MISMATCHED = { code: 'idempotency_store_reply_mismatched' };

  const database = useDatabase();
  let relay: ShiftingRelay;

  beforeEach(async () => {
    await migrate({ url: database.url });
    relay = closeAfterTest(await ShiftingRelay.start(Number(new URL(database.url).port)));
  });

  describe.each(adapterNames)('When replies get out of step in a transaction, %s', (name) => {
    let opened: OpenedUnitOfWork<never>;
    let attempt: TransactionalAttempt<never>;
    beforeEach(async () => {
      // One connection, so that the next transaction would get the same one.
      opened = await adapterOf(name).open(throughPort(database.url, relay.port), 1);
      attempt = new TransactionalAttempt(ownStore(database.url), opened.unitOfWork);
    });
    afterEach(() => opened.close());

    async function expectTheNextOneToWork(): Promise<void> {
      const lease = await attempt.begin();
      const held = await attempt.open(lease);
      await opened.insert(held.transaction.handle, 'next');
      expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
      expect(await database.effects()).toEqual(['next']);
    }

    it('the lock fails, and the connection is closed', async () => {
      const lease = await attempt.begin();
      relay.shiftAt(LOCK);
      await expect(attempt.open(lease)).rejects.toMatchObject(MISMATCHED);
      await expectTheNextOneToWork();
    });

    it('the save fails, nothing is committed, and the connection is closed', async () => {
      const lease = await attempt.begin();
      const held = await attempt.open(lease);
      await opened.insert(held.transaction.handle, 'one');
      relay.shiftAt(COMPLETE);
      expect(await attempt.commit(held, lease)).toMatchObject({
        kind: 'failed',
        error: MISMATCHED,
      });
      expect(await database.effects()).toEqual([]);
      await expectTheNextOneToWork();
    });

    it('COMMIT fails', async () => {
      const lease = await attempt.begin();
      const held = await attempt.open(lease);
      await opened.insert(held.transaction.handle, 'one');
      const reportsCommands = ['pg', 'drizzle'].includes(name);
      // The others query a nonce before it. Drizzle wraps the error.
      relay.shiftAt(reportsCommands ? 'COMMIT' : 'SELECT $1::text AS reply');
      const error = name === 'drizzle' ? { cause: MISMATCHED } : MISMATCHED;
      const end = await attempt.commit(held, lease);
      expect(end).toMatchObject({ kind: 'failed', error });
      expect(end.kind === 'failed' && opened.unitOfWork.isReplyMismatch(end.error)).toBe(true);
      await opened.unitOfWork.run({ isolation: undefined, timeoutMs: 10_000 }, async ({ handle }) =>
        opened.insert(handle, 'next'),
      );
      expect(await database.effects()).toEqual(reportsCommands ? ['next', 'one'] : ['next']);
    });
  });

  describe('A commit succeeds with', () => {
    async function expectToCommit<Handle>(unitOfWork: UnitOfWork<Handle>): Promise<void> {
      const attempt = new TransactionalAttempt(ownStore(database.url), unitOfWork);
      const lease = await attempt.begin();
      const held = await attempt.open(lease);
      expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
    }

    it('a binary pool', () =>
      expectToCommit(pgUnitOfWork(userPool(database.url, { binary: true }))));

    it('a pool whose parser leaves text as bytes', async () => {
      const types = { getTypeParser: () => (sent: unknown) => sent };
      await expectToCommit(pgUnitOfWork(userPool(database.url, { binary: true, types })));
    });

    it('Kysely with plugins that rename columns and read JSON', async () => {
      const db = new Kysely({
        dialect: new PostgresDialect({ pool: userPool(database.url) }),
        plugins: [new CamelCasePlugin({ upperCase: true }), new ParseJSONResultsPlugin()],
      });
      await expectToCommit(kyselyUnitOfWork(db));
    });

    it.each<[string, (rows: readonly object[]) => unknown]>([
      ['renames columns', (rows) => ({ rows: rows.map(inCapitals) })],
      ['returns only the rows', (rows) => rows.map(inCapitals)],
    ])('a postProcessResponse of Knex that %s', async (_, make) => {
      const db = openKnex({
        client: 'pg',
        connection: database.url,
        postProcessResponse: (result: { rows?: readonly object[] }) =>
          result.rows === undefined ? result : make(result.rows),
        wrapIdentifier: (name, wrap) => wrap(name.toUpperCase()),
      });
      closeAfterTest({ stop: () => db.destroy() });
      await expectToCommit(knexUnitOfWork(db));
    });
  });

  function inCapitals(row: object): object {
    return Object.fromEntries(
      Object.entries(row).map(([name, value]) => [name.toUpperCase(), value as unknown]),
    );
  }
});

const TIMEOUT_MS = 300_000;
const SHORT_TIMEOUT_MS = 300;
const LONG_WAIT_MS = 60_000;

describe.each(['pg', 'drizzle', 'typeorm'] as const)('%s, when BEGIN is not answered', (name) => {
  const database = useDatabase();
  let relay: TcpRelay;
  let opened: OpenedUnitOfWork<never>;

  beforeEach(async () => {
    relay = closeAfterTest(await TcpRelay.start(Number(new URL(database.url).port)));
    opened = await adapterOf(name).open(relay.through(database.url), 1);
    await insert('before');
    relay.stallDetector();
  });
  afterEach(() => opened.close());

  function insert(id: string, timeoutMs = TIMEOUT_MS): Promise<unknown> {
    return opened.unitOfWork.run({ isolation: 'serializable', timeoutMs }, ({ handle }) =>
      opened.insert(handle, id),
    );
  }

  async function expectTheNextToBeWritten(): Promise<void> {
    await insert('after');
    expect(await database.effects()).toEqual(['after', 'before']);
  }

  it('fails at the timeout, and frees its place in the pool', async () => {
    const error: unknown = await insert('lost', SHORT_TIMEOUT_MS).catch(
      (thrown: unknown) => thrown,
    );
    expect(root(error)).toMatchObject({
      message: `The database did not reply to BEGIN within ${SHORT_TIMEOUT_MS} ms.`,
    });
    await expectTheNextToBeWritten();
  });

  it('fails long before the timeout of a slow handler', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'Date'] });
    try {
      const failure = insert('lost').catch((thrown: unknown) => thrown);
      await until(() => relay.lost > 0);
      jest.advanceTimersByTime(LONG_WAIT_MS);
      expect(root(await failure)).toMatchObject({
        message: expect.stringContaining('did not reply to BEGIN'),
      });
    } finally {
      jest.useRealTimers();
    }
    await expectTheNextToBeWritten();
  });
});

/** Drizzle wraps the error of a statement. */
function root(error: unknown): unknown {
  return (error as Error).cause ?? error;
}
