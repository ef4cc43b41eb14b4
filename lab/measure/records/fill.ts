import { randomBytes } from 'node:crypto';
import { Cluster } from 'ioredis';
import type { Pool } from 'pg';

const AT_ONCE = 10_000;
const DAY_MS = 86_400_000;

/** Copies a record of the store under random names. @param prefix - of all keys. */
export async function fillCluster(
  addresses: { host: string; port: number }[],
  prefix: string,
  recordKey: string,
  count: number,
): Promise<void> {
  const client = new Cluster(addresses, { enableAutoPipelining: true });
  const record = await client.getBuffer(prefix + recordKey);
  if (record === null) throw new Error('There is no record to copy.');
  for (let made = 0; made < count; made += AT_ONCE) {
    const length = Math.min(AT_ONCE, count - made);
    const names = Array.from({ length }, () => randomBytes(32).toString('base64url'));
    await Promise.all(names.map((name) => client.set(prefix + name, record, 'PX', DAY_MS)));
  }
  client.disconnect();
}

/** The same in one statement. */
export async function fillPostgres(pool: Pool, recordKey: string, count: number): Promise<void> {
  const { rows } = await pool.query<{ columns: string }>(
    `SELECT string_agg(quote_ident(column_name), ', ') AS columns FROM information_schema.columns
     WHERE table_name = 'idempotency_records' AND column_name <> 'record_key'`,
  );
  const columns = rows[0]?.columns ?? '';
  await pool.query(
    `INSERT INTO idempotency_records (record_key, ${columns})
     SELECT sha256(number::text::bytea), ${columns} FROM generate_series(1, $2::integer) AS number,
       LATERAL (SELECT * FROM idempotency_records WHERE record_key = $1) AS record`,
    [Buffer.from(recordKey, 'base64url'), count],
  );
  await pool.query('ANALYZE idempotency_records');
}
