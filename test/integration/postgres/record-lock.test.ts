import { beforeAll, describe, expect, it } from '@jest/globals';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate } from 'nestjs-idempotency/postgres';
import type { Lease } from '../../support/internals/core.js';
import { postgresServers } from '../../support/postgres/postgres-servers.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { newRecordKey, newToken } from '../../support/stores/commands.js';
import { ownStore, userPool } from './support/fixture.js';
import { TransactionalAttempt } from './support/transactional-attempt.js';

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
