import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { withSqlClock } from '../../support/clocks/injected-clock.js';
import { documentedSql } from '../../support/docs/documented-blocks.js';
import type { Begin, Lease } from '../../support/internals/core.js';
import { loadStatements, TableName } from '../../support/internals/postgres.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { watchedPool } from '../../support/postgres/watched-pool.js';
import {
  beginCommand,
  newToken,
  releaseCommand,
  TIMEOUT_MS,
} from '../../support/stores/commands.js';
import { ownStore, userPool } from './support/fixture.js';
import { TransactionalAttempt } from './support/transactional-attempt.js';

const server = usePostgres();

describe('abandoned', () => {
  const ORIGIN = 'b3JkZXJz';
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
  });
  beforeEach(() => userPool(url).query('TRUNCATE idempotency_records'));

  /** Records whose leases ended in sequence, one second apart; the first one long ago. */
  async function abandoned(count: number) {
    const store = ownStore(url);
    const pool = userPool(url);
    const begins: Begin[] = [];
    for (let i = 0; i < count; i += 1) {
      const begin = beginCommand({ origin: ORIGIN });
      expect(await store.begin(begin)).toMatchObject({ kind: 'acquired' });
      await pool.query(
        `UPDATE idempotency_records SET lease_until = date_trunc('milliseconds', now()) - interval '1 hour' + $2 * interval '1 second'
       WHERE record_key = $1`,
        [Buffer.from(begin.recordKey, 'base64url'), i],
      );
      begins.push(begin);
    }
    const command = { overMs: 60_000, limit: 10, timeoutMs: TIMEOUT_MS };
    return { store, pool, begins, command };
  }

  const keysOf = (page: { records: readonly { recordKey: string }[] }) =>
    page.records.map(({ recordKey }) => recordKey);

  it('An operator changes nothing that a transaction holds, whatever he says', async () => {
    const { store, pool, begins } = await abandoned(1);
    const { recordKey } = begins[0]!;
    const { state, fence } = (await store.inspect(recordKey, { timeoutMs: TIMEOUT_MS }))!;
    const amend = () =>
      store.amend({
        recordKey,
        token: newToken(),
        expected: { state, fence },
        change: { kind: 'release', tombstoneMs: 60_000, isTakeover: true },
        evenIfRunning: true,
        notBefore: 0,
        timeoutMs: TIMEOUT_MS,
      });
    const transaction = await pool.connect();
    await transaction.query('BEGIN');
    const key = Buffer.from(recordKey, 'base64url');
    const lock = 'SELECT 1 FROM idempotency_records WHERE record_key = $1 FOR UPDATE';
    await transaction.query(lock, [key]);
    expect(await amend()).toEqual({ kind: 'running', leaseLeftMs: 0 });
    await transaction.query('ROLLBACK');
    transaction.release();
    expect(await amend()).toEqual({ kind: 'ok', fence: fence + 1 });
  });

  describe('PostgreSQL lists', () => {
    it('abandoned records in pages of the given size, oldest first', async () => {
      const { store, begins, command } = await abandoned(25);
      const expected = begins.map(({ recordKey }) => recordKey);
      const first = await store.abandoned(command);
      expect(keysOf(first)).toEqual(expected.slice(0, 10));
      const second = await store.abandoned({ ...command, cursor: first.cursor });
      expect(keysOf(second)).toEqual(expected.slice(10, 20));
      const third = await store.abandoned({ ...command, cursor: second.cursor });
      expect(keysOf(third)).toEqual(expected.slice(20));
      expect(third.cursor).toBeUndefined();
    });

    it('no record that a transaction holds, without waiting for it', async () => {
      const { store, pool, begins, command } = await abandoned(3);
      const [held, ...others] = begins.map(({ recordKey }) => recordKey);
      const transaction = await pool.connect();
      await transaction.query('BEGIN');
      await transaction.query(
        'SELECT 1 FROM idempotency_records WHERE record_key = $1 FOR UPDATE SKIP LOCKED',
        [Buffer.from(held!, 'base64url')],
      );
      expect(keysOf(await store.abandoned(command))).toEqual(others);
      // The state of a transactional attempt just before its commit.
      await transaction.query(
        `UPDATE idempotency_records SET state = 'completed', outcome_header = '', outcome_body = '' WHERE record_key = $1`,
        [Buffer.from(held!, 'base64url')],
      );
      expect(keysOf(await store.abandoned(command))).toEqual(others);
      await transaction.query('ROLLBACK');
      transaction.release();
      expect(keysOf(await store.abandoned(command))).toEqual([held, ...others]);
    });

    it('records without leaving a lock on them', async () => {
      const { store, begins, command } = await abandoned(1);
      expect(keysOf(await store.abandoned(command))).toHaveLength(1);
      const other = { ...begins[0]!, token: beginCommand().token };
      expect(await store.begin(other)).toMatchObject({ kind: 'takeover' });
    });

    it('the records whose leases ended to an operator, as documented', async () => {
      const { pool, store, begins } = await abandoned(2);
      expect(await store.begin(beginCommand())).toMatchObject({ kind: 'acquired' });
      const { rows } = await pool.query(documentedSql('encode(record_key'));
      const keys = begins.map(({ recordKey }) =>
        Buffer.from(recordKey, 'base64url').toString('hex'),
      );
      expect(rows.map(({ encode }) => encode as string).sort()).toEqual(keys.sort());
      expect(rows[0]).toMatchObject({ state: 'in_progress', attempt: 1, takeovers: 0 });
    });

    it('records by an index without finished records', async () => {
      const { pool } = await abandoned(5);
      await pool.query(
        `INSERT INTO idempotency_records (record_key, state, token, fence, fingerprint, attempt, takeovers, lease_until,
         lease_ms, deadline, expires_at, outcome_header, outcome_body)
       SELECT sha256(i::text::bytea), 'completed', 't', 1, 'f', 1, 0, now() - interval '2 hours', 1, now(),
         now() + interval '1 day', '', ''
       FROM generate_series(1, 20000) AS i`,
      );
      await pool.query('ANALYZE idempotency_records');
      const { text } = loadStatements(new TableName()).abandoned;
      const { rows } = await pool.query<{ 'QUERY PLAN': string }>(
        `EXPLAIN (ANALYZE, BUFFERS) ${text.replaceAll('$1', '0').replaceAll('$2', '10').replaceAll('$3', '0').replaceAll('$4', `''`).replaceAll('$5', `'n'`)}`,
      );
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      expect(plan).toMatch(/Index Scan (using|on) idempotency_records_lease_until_idx/);
      expect(plan).not.toMatch(/Rows Removed by Filter/);
    });
  });

  describe('A page of abandoned records among many in progress', () => {
    const LIMIT = 10;
    const MANY = 20_000;
    const PLANS = ['force_custom_plan', 'force_generic_plan'];

    /** @param leaseAheadMs - how far in the future the leases end; each is 10 s long. */
    async function manyInProgress(leaseAheadMs: number) {
      const found = await abandoned(5);
      await found.pool.query(
        `INSERT INTO idempotency_records (record_key, state, token, fence, fingerprint, attempt, takeovers, lease_until,
         lease_ms, deadline, expires_at, origin)
       SELECT sha256(i::text::bytea), 'in_progress', 't', 1, 'f', 1, 0, now() + $1 * interval '1 millisecond', 10000,
         now() + interval '1 hour', now() + interval '1 day', 'o'
       FROM generate_series(1, $2::integer) AS i`,
        [leaseAheadMs, MANY],
      );
      await found.pool.query('ANALYZE idempotency_records');
      return found;
    }

    /** The number of table rows that the first page reads. */
    async function rowsRead(pool: Pool, planCacheMode: string) {
      const { text } = loadStatements(new TableName()).abandoned;
      const client = await pool.connect();
      try {
        await client.query(`SET plan_cache_mode = ${planCacheMode}`);
        await client.query(`PREPARE page AS ${text}`);
        const { rows } = await client.query<{ 'QUERY PLAN': readonly { Plan: PlanNode }[] }>(
          `EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE page (0, ${LIMIT}, 0, '', 'n')`,
        );
        const scans = nodesOf(rows[0]!['QUERY PLAN'][0]!.Plan).filter(
          (node) => node['Relation Name'] !== undefined && node['Node Type'].includes('Scan'),
        );
        return scans.reduce((total, node) => total + rowsOf(node), 0);
      } finally {
        client.release(true);
      }
    }

    it.each(PLANS)('reads at most one page of healthy records (%s)', async (plan) => {
      const { pool } = await manyInProgress(9_000);
      const read = await rowsRead(pool, plan);
      expect(read).toBeGreaterThanOrEqual(LIMIT);
      expect(read).toBeLessThanOrEqual(3 * LIMIT);
    });

    it.each(PLANS)(
      'shortens one page of leases after the clock stepped back (%s)',
      async (plan) => {
        const { pool } = await manyInProgress(3_600_000);
        expect(await rowsRead(pool, plan)).toBeLessThanOrEqual(4 * LIMIT);
        const { rowCount } = await pool.query(
          `SELECT 1 FROM idempotency_records WHERE lease_until BETWEEN now() AND now() + interval '10 s'`,
        );
        expect(rowCount).toBe(LIMIT);
      },
    );

    it('finds the lease that ends last after the clock stepped back', async () => {
      const { store, pool, begins, command } = await manyInProgress(9_000);
      const recordKey = Buffer.from(begins[0]!.recordKey, 'base64url');
      await pool.query(
        `UPDATE idempotency_records SET lease_until = now() + interval '30 minutes' WHERE record_key = $1`,
        [recordKey],
      );
      await store.abandoned({ ...command, limit: 1 });
      const { rows } = await pool.query<{ is_clamped: boolean }>(
        `SELECT lease_until <= now() + lease_ms * interval '1 millisecond' AS is_clamped
       FROM idempotency_records WHERE record_key = $1`,
        [recordKey],
      );
      expect(rows).toEqual([{ is_clamped: true }]);
    });
  });

  interface PlanNode {
    readonly 'Node Type': string;
    readonly 'Relation Name'?: string;
    readonly 'Actual Rows': number;
    readonly 'Actual Loops': number;
    readonly 'Rows Removed by Filter'?: number;
    readonly Plans?: readonly PlanNode[];
  }

  function nodesOf(node: PlanNode): PlanNode[] {
    return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
  }

  function rowsOf(node: PlanNode): number {
    return (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
  }

  describe('A begin that must not take over, when the lease has expired and the record is not locked', () => {
    /** Returns its reply, and how often it checked whether the record is locked. */
    async function denied(
      afterFirstRead: (owner: PostgresIdempotencyStore, lease: Lease) => unknown,
    ) {
      const owner = ownStore(url);
      const attempt = new TransactionalAttempt(owner, pgUnitOfWork(userPool(url)));
      const lease = await attempt.begin();
      await userPool(url).query(
        `UPDATE idempotency_records SET lease_until = now() - interval '1 second'`,
      );
      const held = await attempt.open(lease);
      let reads = 0;
      const client = watchedPool(userPool(url), async ({ text }, result) => {
        if (!text.includes('FOR SHARE SKIP LOCKED')) return result;
        reads += 1;
        if (reads === 1) await afterFirstRead(owner, lease);
        return result;
      });
      await held.rollBack();
      const { recordKey } = lease;
      const other = new PostgresIdempotencyStore({ client });
      const reply = await other.begin(beginCommand({ recordKey, onExpiredLease: 'deny' }));
      return { reply, reads };
    }

    it('acquires when the attempt that rolled back has released the record', async () => {
      const { reply, reads } = await denied((owner, lease) =>
        owner.release(lease, releaseCommand()),
      );
      expect(reply).toMatchObject({ kind: 'acquired', attempt: 2, takeovers: 0 });
      expect(reads).toBe(1);
    });

    it('is answered after the second check', async () => {
      const { reply, reads } = await denied(() => undefined);
      expect(reply).toMatchObject({ kind: 'abandoned', attempt: 1 });
      expect(reads).toBe(2);
    });
  });
});

describe('A begin whose statement finds no record and inserts none', () => {
  it('acquires nothing until it has inserted one', async () => {
    const url = await server.newDatabase();
    await migrate({ url });
    const pool = userPool(url);
    let begins = 0;
    // A concurrent begin inserted the record after the statement's snapshot, and it was deleted before the next one.
    const client = watchedPool(pool, async ({ text, values }, result) => {
      if (!text.includes('inserted AS') || begins++ > 0) return result;
      await pool.query('DELETE FROM idempotency_records');
      return { ...result, rows: [{ reply: values.at(-1) }] };
    });
    const store = new PostgresIdempotencyStore({ client });
    const begin = beginCommand();
    const reply = await store.begin(begin);
    expect(reply).toMatchObject({ kind: 'acquired', attempt: 1 });
    expect(begins).toBe(2);
    const found = await store.inspect(begin.recordKey, { timeoutMs: TIMEOUT_MS });
    expect(found?.fence).toBe(reply.kind === 'acquired' && reply.fence);
  });
});

describe('clock step', () => {
  const LEASE_MS = 10_000;
  const STEP_MS = 3_600_000;
  const statements = loadStatements(new TableName(), (text) =>
    withSqlClock(text, '(statement_timestamp() + (SELECT ahead FROM store_clock))'),
  );
  let url: string;
  let observer: Pool;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
  });
  beforeEach(async () => {
    observer = userPool(url);
    await observer.query(`TRUNCATE idempotency_records; DROP TABLE IF EXISTS store_clock;
      CREATE TABLE store_clock AS SELECT interval '0' AS ahead`);
  });

  async function step(ms: number): Promise<void> {
    await observer.query(`UPDATE store_clock SET ahead = ahead + $1 * interval '1 millisecond'`, [
      ms,
    ]);
  }

  /** A store whose statements fail when they have to wait for a row. */
  function shortTimeoutStore(): PostgresIdempotencyStore {
    const client = userPool(url, { options: '-c lock_timeout=1' });
    return new PostgresIdempotencyStore({ client, statements, deleteExpired: false });
  }

  /** An attempt whose transaction holds the record, and the store that duplicates use. */
  async function heldRecord() {
    const store = shortTimeoutStore();
    const attempt = new TransactionalAttempt(store, pgUnitOfWork(userPool(url)));
    const lease = await attempt.begin({ origin: 'b3JkZXJz', leaseMs: LEASE_MS });
    return { store, lease, held: await attempt.open(lease) };
  }

  const duplicateOf = (
    { recordKey }: Lease,
    onExpiredLease: Begin['onExpiredLease'] = 'takeover',
  ) => beginCommand({ recordKey, token: newToken(), leaseMs: LEASE_MS, onExpiredLease });

  describe('While a transaction holds the record and the server’s clock has stepped back', () => {
    it.each(['takeover', 'deny'] as const)('begin (%s) does not wait', async (onExpiredLease) => {
      const { store, lease, held } = await heldRecord();
      await step(-STEP_MS);
      expect(await store.begin(duplicateOf(lease, onExpiredLease))).toEqual({
        kind: 'in_progress',
        leaseLeftMs: LEASE_MS,
      });
      await held.rollBack();
    });

    it('inspect does not wait', async () => {
      const { store, lease, held } = await heldRecord();
      await step(-STEP_MS);
      const record = await store.inspect(lease.recordKey, { timeoutMs: TIMEOUT_MS });
      expect(record).toMatchObject({ state: 'in_progress', leaseLeftMs: LEASE_MS });
      await held.rollBack();
    });

    it('abandoned does not wait, and shortens the leases of the other records', async () => {
      const { store, lease, held } = await heldRecord();
      const other = beginCommand({ origin: 'b3JkZXJz', leaseMs: LEASE_MS });
      await store.begin(other);
      await step(-STEP_MS);
      const command = { overMs: 0, limit: 10, timeoutMs: TIMEOUT_MS };
      const listed = async () =>
        (await store.abandoned(command)).records.map(({ recordKey }) => recordKey);
      expect(await listed()).toEqual([]);
      await step(LEASE_MS);
      expect(await listed()).toEqual([other.recordKey]);
      // Its transaction is over: now its lease is shortened as well, and expires after the others.
      await held.rollBack();
      expect(await listed()).toEqual([other.recordKey]);
      await step(LEASE_MS);
      expect((await listed()).sort()).toEqual([lease.recordKey, other.recordKey].sort());
    });
  });

  it('A begin shortens the lease once the transaction is over, so that the lease of a dead owner expires in time', async () => {
    const { store, lease, held } = await heldRecord();
    await step(-STEP_MS);
    await store.begin(duplicateOf(lease));
    await held.rollBack();
    expect(await store.begin(duplicateOf(lease))).toMatchObject({ kind: 'in_progress' });
    await step(LEASE_MS - 1_000);
    expect(await store.begin(duplicateOf(lease))).toMatchObject({ kind: 'in_progress' });
    await step(1_000);
    expect(await store.begin(duplicateOf(lease))).toMatchObject({ kind: 'takeover', attempt: 2 });
  });
});
