import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import {
  type SqlTransaction,
  PostgresUnitOfWork,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import type { Pool, PoolClient } from 'pg';
import { withSqlClock } from '../../support/clocks/injected-clock.js';
import { documentedSql } from '../../support/docs/documented-blocks.js';
import type { Lease, TransactionEnd } from '../../support/internals/core.js';
import { loadStatements, TableName } from '../../support/internals/postgres.js';
import { type PostgresServer, startPostgres } from '../../support/postgres/postgres-server.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { START_HOOK_MS } from '../../support/servers/start-server.js';
import {
  beginCommand,
  completeCommand,
  leaseOf,
  newRecordKey,
  newToken,
  releaseCommand,
} from '../../support/stores/commands.js';
import { ownStore, userPool } from './support/fixture.js';
import { TransactionalAttempt } from './support/transactional-attempt.js';

const AT_ONCE = 8;

describe('concurrency', () => {
  /** FIRST_REQUESTS=10000 for the long run. */
  const PAIRS = Number(process.env.FIRST_REQUESTS ?? 500);
  const TIMEOUT_MS = 10_000;

  let server: PostgresServer;
  let url: string;

  beforeAll(async () => {
    server = await startPostgres();
    url = await server.newDatabase();
    await migrate({ url });
  }, START_HOOK_MS);
  afterAll(() => server.stop());

  describe.each(['read committed', 'repeatable read', 'serializable'])(
    'Two concurrent first requests, where transactions are %s by default',
    (isolation) => {
      it('acquire once, without a unique violation for the client or in the log', async () => {
        const options = `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`;
        // Two processes have a pool each.
        const stores = [1, 2].map(() => ownStore(url, { connection: { options, max: AT_ONCE } }));
        const kinds: string[][] = [];
        let left = PAIRS;
        const race = async () => {
          while (left-- > 0) {
            const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
            const replies = await Promise.all(
              stores.map((store) => store.begin({ ...begin, token: newToken() })),
            );
            kinds.push(replies.map(({ kind }) => kind).sort());
          }
        };
        await Promise.all(Array.from({ length: AT_ONCE }, race));
        expect(kinds).toHaveLength(PAIRS);
        expect(kinds.filter((pair) => pair.join() !== 'acquired,in_progress')).toEqual([]);
        expect(server.log.join('')).not.toMatch(/duplicate key|unique constraint/);
      }, 300_000);
    },
  );

  describe('A record whose lease is over', () => {
    const begun = async (store: PostgresIdempotencyStore) => {
      const begin = beginCommand({ leaseMs: 1, timeoutMs: TIMEOUT_MS });
      await store.begin(begin);
      return { begin, key: Buffer.from(begin.recordKey, 'base64url') };
    };
    const lock = 'SELECT 1 FROM idempotency_records WHERE record_key = $1 FOR UPDATE';

    it('is in progress while a transaction holds its row, and is taken over afterwards', async () => {
      const store = ownStore(url);
      const { begin, key } = await begun(store);
      const holder = await userPool(url).connect();
      await holder.query('BEGIN');
      await holder.query(lock, [key]);
      const other = { ...begin, token: newToken() };
      expect(await store.begin(other)).toEqual({ kind: 'in_progress', leaseLeftMs: 0 });
      await holder.query('ROLLBACK');
      holder.release();
      expect(await store.begin(other)).toMatchObject({
        kind: 'takeover',
        attempt: 2,
        takeovers: 1,
      });
    });

    it('is not taken over after notAfter, even when the second statement is late', async () => {
      const { begin } = await begun(ownStore(url));
      const late = `(statement_timestamp() + interval '1 hour')`;
      const statements = loadStatements(new TableName(), (text, file) =>
        file === 'acquire' ? withSqlClock(text, late) : text,
      );
      const store = new PostgresIdempotencyStore({ client: userPool(url), statements });
      const other = {
        ...begin,
        token: newToken(),
        notAfter: Date.now() + 60_000,
        timeoutMs: 1_500,
      };
      await expect(store.begin({ ...other, recordKey: begin.recordKey })).resolves.toEqual({
        kind: 'in_progress',
        leaseLeftMs: 0,
      });
    });
  });

  describe('A released record', () => {
    it('makes a begin wait while a transaction holds its row, and begins then', async () => {
      const store = ownStore(url);
      const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
      const reply = await store.begin(begin);
      await store.release(leaseOf(begin, 'fence' in reply ? reply.fence : 0), releaseCommand());
      const holder = await userPool(url).connect();
      await holder.query('BEGIN');
      await holder.query('SELECT 1 FROM idempotency_records WHERE record_key = $1 FOR UPDATE', [
        Buffer.from(begin.recordKey, 'base64url'),
      ]);
      const again = { ...begin, token: newToken() };
      // On a busy machine the reply to the cancellation may be late, and the outcome unknown: not five times.
      const codes: unknown[] = [];
      const isUnavailable = () => codes.at(-1) === 'idempotency_store_unavailable';
      while (codes.length < 5 && !isUnavailable()) {
        const begun = store.begin({ ...again, timeoutMs: 200 });
        codes.push(await begun.catch((error: unknown) => (error as { code?: unknown }).code));
      }
      expect(isUnavailable()).toBe(true);
      const waiting = store.begin(again);
      await holder.query('ROLLBACK');
      holder.release();
      expect(await waiting).toMatchObject({ kind: 'acquired', attempt: 2, takeovers: 0 });
    });
  });

  describe('A hundred attempts at once', () => {
    it('end with one outcome for all [P12]', async () => {
      const stores = [ownStore(url), ownStore(url)];
      const begin = beginCommand({ leaseMs: 1, timeoutMs: TIMEOUT_MS });
      // Each lease expires at once, so that every attempt can be taken over.
      const outcomes = await Promise.all(
        Array.from({ length: 100 }, async (_, index) => {
          const store = stores[index % 2]!;
          const own = { ...begin, token: newToken() };
          const begun = await store.begin(own);
          if (!('now' in begun && 'fence' in begun)) return undefined;
          const body = randomBytes(16);
          const lease = leaseOf(own, begun.fence);
          const outcome = { header: '{}', body };
          const done = await store.complete(
            lease,
            completeCommand({ outcome, timeoutMs: TIMEOUT_MS }),
          );
          return done.kind === 'ok' || done.kind === 'ok_late' ? body.toString('hex') : undefined;
        }),
      );
      const stored = outcomes.filter((outcome) => outcome !== undefined);
      expect(stored).toHaveLength(1);
      const replay = await stores[0]!.begin({ ...begin, token: newToken() });
      expect(replay).toMatchObject({ kind: 'completed' });
      expect('outcome' in replay && Buffer.from(replay.outcome.body).toString('hex')).toBe(
        stored[0],
      );
    });
  });
});

describe.each(postgresServers)('The lock on a record, $name', (version) => {
  const server = usePostgres(version);
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
  });

  const started = () => {
    const pool = userPool(url);
    return { pool, attempt: new TransactionalAttempt(ownStore(url), pgUnitOfWork(pool)) };
  };
  const keyOf = ({ recordKey }: Lease) => [Buffer.from(recordKey, 'base64url')];
  const holdRow = 'SELECT 1 FROM idempotency_records WHERE record_key = $1 FOR SHARE';

  it.each([
    ['token', { token: newToken() }],
    ['fence', { fence: 1 }],
  ])('is denied to an attempt with another %s', async (_what, other) => {
    const { attempt } = started();
    const lease = await attempt.begin();
    await expect(attempt.open({ ...lease, ...other })).rejects.toThrow('The record was not locked');
    expect(await attempt.commit(await attempt.open(lease), lease)).toEqual({ kind: 'committed' });
  });

  it('is denied without a record, and creates none', async () => {
    const { pool, attempt } = started();
    const lease = { recordKey: newRecordKey(), token: newToken(), fence: 1 };
    await expect(attempt.open(lease)).rejects.toThrow('The record was not locked');
    const found = 'SELECT 1 FROM idempotency_records WHERE record_key = $1';
    expect((await pool.query(found, keyOf(lease))).rows).toEqual([]);
  });

  it('is refused to a transaction without query(), with what to use instead', async () => {
    const lease = await started().attempt.begin();
    const { transactional } = ownStore(url);
    const locking = transactional.lock({ handle: {} }, lease, { maxExecutionMs: 30_000 });
    await expect(locking).rejects.toThrow('extend PostgresUnitOfWork');
    await expect(locking).rejects.toMatchObject({ name: 'StoreConfigurationError' });
  });

  it('is denied once the outcome is stored', async () => {
    const { attempt } = started();
    const lease = await attempt.begin();
    await attempt.commit(await attempt.open(lease), lease);
    await expect(attempt.open(lease)).rejects.toThrow('The record was not locked');
  });

  it('does not change the row', async () => {
    const { pool, attempt } = started();
    const lease = await attempt.begin();
    const row = async () =>
      (
        await pool.query(
          'SELECT ctid, * FROM idempotency_records WHERE record_key = $1',
          keyOf(lease),
        )
      ).rows;
    const before = await row();
    const held = await attempt.open(lease);
    expect(
      (
        await held.transaction.query(
          'SELECT ctid FROM idempotency_records WHERE record_key = $1',
          keyOf(lease),
        )
      )[0],
    ).toEqual({ ctid: before[0].ctid });
    await held.rollBack();
    expect(await row()).toEqual(before);
  });

  it('is acquired when another transaction soon releases the row', async () => {
    const { pool, attempt } = started();
    const lease = await attempt.begin();
    const holder = await pool.connect();
    await holder.query('BEGIN');
    await holder.query(holdRow, keyOf(lease));
    const opening = attempt.open(lease);
    await holder.query('ROLLBACK');
    holder.release();
    expect(await attempt.commit(await opening, lease)).toEqual({ kind: 'committed' });
  });

  it('is denied when another transaction keeps the row', async () => {
    const { pool, attempt } = started();
    const lease = await attempt.begin();
    const holder = await pool.connect();
    await holder.query('BEGIN');
    await holder.query(holdRow, keyOf(lease));
    const end = await attempt.open(lease).then(
      () => 'locked',
      (error: unknown) => error,
    );
    await holder.query('ROLLBACK');
    holder.release();
    expect(end).toMatchObject({ code: '55P03' });
  });

  it.each(['0', '45s', '1min', '7ms'])('preserves a lock_timeout of %s', async (value) => {
    const { pool, attempt } = started();
    const database = new URL(url).pathname.slice(1);
    await pool.query(`ALTER DATABASE ${database} SET lock_timeout = '${value}'`);
    const fresh = new TransactionalAttempt(ownStore(url), pgUnitOfWork(userPool(url)));
    const held = await fresh.open(await attempt.begin());
    const shown = await held.transaction.query('SHOW lock_timeout', []);
    await held.rollBack();
    await pool.query(`ALTER DATABASE ${database} RESET lock_timeout`);
    expect(shown).toEqual([{ lock_timeout: value }]);
  });
});

const ROUNDS = 10;

/** A table with few records is one page, which the planner would scan as a whole. */
const SIZES = [0, 1, 1_000];

async function fill(pool: Pool, records: number): Promise<void> {
  await pool.query('TRUNCATE idempotency_records');
  await pool.query(
    `INSERT INTO idempotency_records (
       record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at,
       outcome_header, outcome_body
     )
     SELECT sha256(i::text::bytea), 'completed', 't', 1, '-', 1, 0, now() + interval '1 day', 'x', 'y'
     FROM generate_series(1, $1::integer) AS i`,
    [records],
  );
  await pool.query('VACUUM ANALYZE idempotency_records');
}

describe.each(postgresServers)('Serializable transactions of different keys, $name', (version) => {
  const server = usePostgres(version);

  describe.each(['whole', 'partitioned'])('in a table that is %s', (kind) => {
    let url: string;

    beforeAll(async () => {
      url = await server.newDatabase();
      await migrate({ url });
    });

    const started = async () => {
      const pool = userPool(url, { max: AT_ONCE + 1 });
      if (kind === 'partitioned') {
        const { rows } = await pool.query(
          `SELECT relkind = 'p' AS done FROM pg_class WHERE oid = 'idempotency_records'::regclass`,
        );
        if (rows[0].done !== true) await pool.query(documentedSql('PARTITION BY HASH'));
      }
      await pool.query('CREATE TABLE IF NOT EXISTS ledger (note text)');
      await pool.query('TRUNCATE ledger');
      const unitOfWork = pgUnitOfWork(pool);
      return { pool, unitOfWork, attempt: new TransactionalAttempt(ownStore(url), unitOfWork) };
    };

    it.each(SIZES)('do not abort each other, among %i records', async (records) => {
      const { pool, attempt } = await started();
      await fill(pool, records);
      const once = async () => {
        const leases = await Promise.all(Array.from({ length: AT_ONCE }, () => attempt.begin()));
        const opened = await Promise.allSettled(
          leases.map((lease) => attempt.open(lease, 'serializable')),
        );
        return Promise.all(
          opened.map(async (opening, index): Promise<TransactionEnd> => {
            const lease = leases[index]!;
            if (opening.status === 'rejected') {
              return { kind: 'failed', error: opening.reason, isCommitSent: false };
            }
            const { transaction } = opening.value;
            await transaction.query('INSERT INTO ledger VALUES ($1)', [lease.recordKey]);
            return attempt.commit(opening.value, lease);
          }),
        );
      };
      const ends: TransactionEnd[] = [];
      for (let round = 0; round < ROUNDS; round += 1) ends.push(...(await once()));
      expect(ends.filter((end) => end.kind !== 'committed')).toEqual([]);
      const { rows } = await pool.query('SELECT DISTINCT note FROM ledger');
      expect(rows).toHaveLength(AT_ONCE * ROUNDS);
    });

    it.each(SIZES)('read only their own records, among %i records', async (records) => {
      const { pool, attempt } = await started();
      await fill(pool, records);
      const reads = async () => {
        const { rows } = await pool.query(
          `SELECT DISTINCT relation::regclass::text AS relation FROM pg_locks WHERE mode = 'SIReadLock'`,
        );
        return rows.map(({ relation }: { relation: string }) => relation);
      };
      const lease = await attempt.begin();
      const held = await attempt.open(lease, 'serializable');
      const atFirst = await reads();
      await held.transaction.query('SELECT 1 FROM ledger', []);
      const completion = await attempt.complete(held.transaction, lease);
      const atLast = await reads();
      await held.rollBack();
      expect({ atFirst, completion, atLast }).toEqual({
        atFirst: [],
        completion: 'stored',
        atLast: ['ledger'],
      });
    });

    it('writes what it says of its end with the outcome', async () => {
      const { attempt } = await started();
      const lease = await attempt.begin();
      const held = await attempt.open(lease);
      expect(await attempt.complete(held.transaction, lease, '~d5')).toBe('stored');
      const own = 'SELECT note FROM idempotency_records WHERE token = $1';
      expect(await held.transaction.query(own, [lease.token])).toEqual([{ note: '~d5' }]);
      await held.rollBack();
    });
  });
});

/** A custom adapter that does not block transaction statements. */
class OpenHearted extends PostgresUnitOfWork<PoolClient> {
  constructor(private readonly pool: Pool) {
    super();
  }

  async run<Result>(
    _options: TransactionOptions,
    work: (transaction: SqlTransaction<PoolClient>) => Promise<Result>,
  ): Promise<Result> {
    const handle = await this.pool.connect();
    try {
      await handle.query('BEGIN');
      const query: SqlTransaction['query'] = async (text, values) =>
        (await handle.query(text, [...values])).rows;
      const result = await work({ handle, query });
      await handle.query('COMMIT');
      return result;
    } catch (error) {
      await handle.query('ROLLBACK');
      throw error;
    } finally {
      handle.release();
    }
  }
}

describe.each(postgresServers)('A handler on $name', (version) => {
  const server = usePostgres(version);
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
    const pool = userPool(url);
    await pool.query('CREATE TABLE ledger (note text)');
  });

  const opened = async () => {
    const pool = userPool(url);
    await pool.query('TRUNCATE ledger');
    const attempt = new TransactionalAttempt(ownStore(url), new OpenHearted(pool));
    const lease = await attempt.begin();
    const held = await attempt.open(lease);
    const run = (text: string) => held.transaction.handle.query(text);
    const notes = async () => {
      const { rows } = await pool.query<{ note: string }>('SELECT note FROM ledger ORDER BY note');
      return rows.map(({ note }) => note);
    };
    const state = async () => {
      const { rows } = await pool.query<{ state: string }>(
        'SELECT state FROM idempotency_records WHERE record_key = $1',
        [Buffer.from(lease.recordKey, 'base64url')],
      );
      return rows[0]?.state;
    };
    return { attempt, lease, held, run, notes, state };
  };

  it.each([
    ['COMMIT', 'committed', ['before']],
    ['ROLLBACK', 'lost', []],
    ['COMMIT; BEGIN', 'committed', ['before']],
    ['ROLLBACK; BEGIN', 'lost', []],
    ['COMMIT AND CHAIN', 'committed', ['before']],
    ['ROLLBACK AND CHAIN', 'lost', []],
  ])('that sends %s has no outcome stored: %s', async (words, completion, notes) => {
    const { attempt, lease, held, run, ...see } = await opened();
    await run(`INSERT INTO ledger VALUES ('before')`);
    await run(words);
    expect(await attempt.commit(held, lease)).toMatchObject({
      kind: 'failed',
      error: new Error(`The outcome was not stored: ${completion}`),
      isCommitSent: false,
    });
    expect(await see.state()).toBe('in_progress');
    expect(await see.notes()).toEqual(notes);
  });

  it('that sends a second BEGIN, of which PostgreSQL only warns, stays in the same transaction', async () => {
    const { attempt, lease, held, run, ...see } = await opened();
    await run('BEGIN');
    await run(`INSERT INTO ledger VALUES ('in it')`);
    expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
    expect(await see.state()).toBe('completed');
    expect(await see.notes()).toEqual(['in it']);
  });

  it.each(['ROLLBACK TO SAVEPOINT here', 'RELEASE SAVEPOINT here'])(
    'that sends %s has its outcome stored',
    async (words) => {
      const { attempt, lease, held, run, ...see } = await opened();
      await run(`INSERT INTO ledger VALUES ('before')`);
      await run('SAVEPOINT here');
      await run(words);
      expect(await attempt.commit(held, lease)).toEqual({ kind: 'committed' });
      expect(await see.state()).toBe('completed');
      expect(await see.notes()).toEqual(['before']);
    },
  );

  it('that deleted the record has no outcome stored', async () => {
    const { attempt, lease, held, run, ...see } = await opened();
    await run('DELETE FROM idempotency_records');
    expect(await attempt.commit(held, lease)).toMatchObject({ kind: 'failed' });
    expect(await see.state()).toBe('in_progress');
  });
});
