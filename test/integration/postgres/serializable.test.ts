import { beforeAll, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate } from 'nestjs-idempotency/postgres';
import type { TransactionEnd } from '../../support/internals/core.js';
import { documentedSql } from '../../support/docs/documented-blocks.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { ownStore, userPool } from './support/fixture.js';
import { TransactionalAttempt } from './support/transactional-attempt.js';

const AT_ONCE = 8;
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
      const isStored = await attempt.complete(held.transaction, lease);
      const atLast = await reads();
      await held.rollBack();
      expect({ atFirst, isStored, atLast }).toEqual({
        atFirst: [],
        isStored: true,
        atLast: ['ledger'],
      });
    });
  });
});
