import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { migrate } from 'nestjs-idempotency/postgres';
import { describeStoreConformance } from 'nestjs-idempotency/testing/store';
import { MIGRATIONS } from '../../support/internals/postgres.js';
import { PostgresHarness } from '../../conformance/postgres-under-test.js';
import { documentedSql } from '../../support/docs/documented-blocks.js';
import { embeddedPostgres } from '../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { beginCommand, completeCommand, leaseOf } from '../../support/stores/commands.js';
import { ownStore, userPool } from './support/fixture.js';

const PARTITIONS = 16;
const TIMEOUT_MS = 10_000;

/** As documented. */
async function partition(pool: Pool): Promise<void> {
  await pool.query(documentedSql('PARTITION BY HASH'));
}

const partitioned = new PostgresHarness(
  { ...embeddedPostgres, name: `${embeddedPostgres.name}, partitioned` },
  partition,
);

describeStoreConformance({ describe, it }, partitioned.underTest);
describeStoreConformance({ describe, it }, partitioned.onItsOwnClock);

afterAll(() => partitioned.close());

describe('A table that is partitioned as documented', () => {
  const server = usePostgres();
  let url: string;
  let pool: Pool;

  beforeAll(async () => {
    url = await server.newDatabase();
    await migrate({ url });
  });

  async function count(table: string): Promise<number> {
    const { rows } = await pool.query(`SELECT count(*)::integer AS count FROM ${table}`);
    return rows[0].count;
  }

  it('keeps its records while stores are in use', async () => {
    pool = userPool(url);
    const store = ownStore(url);
    const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
    const begun = await store.begin(begin);
    const lease = leaseOf(begin, begun.kind === 'acquired' ? begun.fence : -1);
    await partition(pool);
    const complete = completeCommand({ timeoutMs: TIMEOUT_MS });
    expect(await store.complete(lease, complete)).toEqual({ kind: 'ok' });
    expect((await store.begin({ ...begin })).kind).toBe('completed');
  });

  it('has every index and constraint of the unpartitioned table', async () => {
    pool = userPool(url);
    await migrate({ url, table: 'whole' });
    const definitions = async (table: string) => {
      const { rows } = await pool.query<{ text: string }>(
        `SELECT regexp_replace(pg_get_indexdef(indexrelid), '^.* USING ', indisunique::text || ' ') AS text
           FROM pg_index WHERE indrelid = $1::regclass
         UNION ALL
         SELECT pg_get_constraintdef(oid) FROM pg_constraint
           WHERE conrelid = $1::regclass AND contype IN ('c', 'p')`,
        [table],
      );
      return rows.map(({ text }) => text).sort();
    };
    expect(await definitions('idempotency_records')).toEqual(await definitions('whole'));
    expect((await definitions('whole')).length).toBeGreaterThan(3);
  });

  it('needs no migration, and receives future ones', async () => {
    pool = userPool(url);
    const store = ownStore(url);
    expect(await store.migrate()).toEqual([]);
    await store.open();
    const last = MIGRATIONS.length;
    expect(await count('idempotency_records_migrations')).toBe(last);
  });

  it('lets one of many begins acquire, and distributes its records', async () => {
    pool = userPool(url);
    const store = ownStore(url);
    const KEYS = 100;
    for (let key = 0; key < KEYS; key += 1) {
      const begin = beginCommand({ timeoutMs: TIMEOUT_MS });
      const other = { ...beginCommand({ timeoutMs: TIMEOUT_MS }), recordKey: begin.recordKey };
      const kinds = (await Promise.all([store.begin(begin), store.begin(other)])).map(
        ({ kind }) => kind,
      );
      expect(kinds.filter((kind) => kind === 'acquired')).toHaveLength(1);
    }
    const used = await pool.query('SELECT DISTINCT tableoid FROM idempotency_records');
    // With 100 keys, more than half of 16 partitions stay empty once in 10^20 runs.
    expect(used.rows.length).toBeGreaterThan(PARTITIONS / 2);
  });

  it('loses expired records in all partitions', async () => {
    pool = userPool(url);
    await pool.query(`UPDATE idempotency_records SET expires_at = now() - interval '1 second'`);
    const expired = await count('idempotency_records');
    expect(expired).toBeGreaterThan(100);
    const { deleted } = await ownStore(url).deleteExpired({ batchSize: 30, pause: 0 });
    expect(deleted).toBe(expired);
    expect(await count('idempotency_records')).toBe(0);
  });
});
