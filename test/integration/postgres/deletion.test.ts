import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { migrate } from 'nestjs-idempotency/postgres';
import { TableName } from '../../../lib/stores/postgres/table-name.js';
import { startPostgres, type PostgresServer } from '../../support/postgres-server.js';
import { ownStore, userPool } from './support/fixture.js';

let server: PostgresServer;
let url: string;
let pool: Pool;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

beforeEach(async () => {
  url = await server.newDatabase();
  await migrate({ url });
  pool = userPool(url);
});

/** Records that expired, or will expire, so many seconds from now. */
async function addRecords(count: number, seconds: number): Promise<void> {
  await pool.query(
    `INSERT INTO idempotency_records (record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at)
     SELECT decode(md5(random()::text), 'hex'), 'released', 't', 1, '-', 1, 0, now() + $2 * interval '1 second'
     FROM generate_series(1, $1)`,
    [count, seconds],
  );
}

async function records(): Promise<number> {
  return (await pool.query('SELECT count(*)::integer AS count FROM idempotency_records')).rows[0]
    .count;
}

describe('deleteExpired', () => {
  it('deletes in batches all that has expired, and nothing else', async () => {
    await addRecords(25, -10);
    await addRecords(5, 600);
    expect(await ownStore(url).deleteExpired({ batchSize: 10, pauseMs: 0 })).toBe(25);
    expect(await records()).toBe(5);
  });

  it('leaves alone what somebody holds, and deletes it the next time', async () => {
    await addRecords(3, -10);
    const holder = await pool.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT 1 FROM idempotency_records LIMIT 1 FOR UPDATE');
    const store = ownStore(url);
    expect(await store.deleteExpired()).toBe(2);
    await holder.query('COMMIT');
    holder.release();
    expect(await store.deleteExpired()).toBe(1);
  });

  it('leaves it to another process that is at it', async () => {
    await addRecords(3, -10);
    const other = await pool.connect();
    const lock = new TableName().advisoryLock('deletion');
    await other.query('BEGIN');
    await other.query(`SELECT pg_advisory_xact_lock(${lock})`);
    const store = ownStore(url);
    expect(await store.deleteExpired()).toBe(0);
    await other.query('COMMIT');
    other.release();
    expect(await store.deleteExpired()).toBe(3);
  });

  it('stops when it is told to, after the batch under way', async () => {
    await addRecords(30, -10);
    const abort = new AbortController();
    const deletion = ownStore(url).deleteExpired({
      batchSize: 10,
      pauseMs: 60_000,
      signal: abort.signal,
    });
    while ((await records()) === 30);
    abort.abort();
    expect(await deletion).toBe(10);
    expect(await records()).toBe(20);
  });

  it.each([
    [{ batchSize: 0 }, 'The option "batchSize" must be an integer from 1'],
    [{ pauseMs: -1 }, 'The option "pauseMs" must be an integer from 0'],
    [{ size: 1 }, '"size" is not an option of deleteExpired'],
  ])('refuses %j', async (options, message) => {
    await expect(ownStore(url).deleteExpired(options as never)).rejects.toThrow(message);
  });
});
