import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { pgUnitOfWork } from 'nestjs-idempotency/pg';
import { migrate, PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import type { Begin, Lease } from '../../support/internals/core.js';
import { loadStatements, TableName } from '../../support/internals/postgres.js';
import { withSqlClock } from '../../support/clocks/injected-clock.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { beginCommand, newToken, TIMEOUT_MS } from '../../support/stores/commands.js';
import { userPool } from './support/fixture.js';
import { TransactionalAttempt } from './support/transactional-attempt.js';

const LEASE_MS = 10_000;
const STEP_MS = 3_600_000;
const statements = loadStatements(new TableName(), (text) =>
  withSqlClock(text, '(statement_timestamp() + (SELECT ahead FROM store_clock))'),
);

const server = usePostgres();
let url: string;
let observer: Pool;

beforeEach(async () => {
  url = await server.newDatabase();
  await migrate({ url });
  observer = userPool(url);
  await observer.query(`CREATE TABLE store_clock AS SELECT interval '0' AS ahead`);
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

const duplicateOf = ({ recordKey }: Lease, onExpiredLease: Begin['onExpiredLease'] = 'takeover') =>
  beginCommand({ recordKey, token: newToken(), leaseMs: LEASE_MS, onExpiredLease });

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
