import { describe, expect, it } from '@jest/globals';
import type { Pool } from 'pg';
import { IdempotencyHealth } from 'nestjs-idempotency';
import { postgresStore, type PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { startPostgres } from '../../support/postgres/postgres-server.js';
import { useServer } from '../../support/servers/use-server.js';
import { callingApp, type CallingApp } from '../../support/nest/calling-app.js';
import { until } from '../../support/waiting/until.js';

const DOWN = { status: 'down', store: 'postgresql', errorType: 'idempotency_store_unavailable' };
const PROBES = ['read', 'write'] as const;

const server = useServer(startPostgres);
let url: string;
let store: PostgresIdempotencyStore;

const observer: Pool = useServer(
  async () => {
    url = await server.newDatabase();
    return openPostgresPool(url);
  },
  (pool) => pool.end(),
);
const app: CallingApp = useServer(
  () => {
    store = postgresStore({ url, deleteExpired: false });
    return store.migrate().then(() => callingApp({}, { store }));
  },
  ({ nest }) => nest.close(),
);

/** The report of a new probe, which has time on a busy machine. */
const probed = (probe: 'read' | 'write', timeoutMs = 5_000, from = app) =>
  from.nest.get(IdempotencyHealth, { strict: false }).check({ probe, timeoutMs, maxAgeMs: 0 });

const untilUp = (probe: 'read' | 'write') =>
  until(async () => (await probed(probe)).status === 'up');

const count = async (condition: string) => {
  const { rows } = await observer.query<{ count: number }>(
    `SELECT count(*)::integer FROM idempotency_records WHERE ${condition}`,
  );
  return rows[0]!.count;
};

describe('a health check on PostgreSQL', () => {
  it.each(PROBES)('is up: "%s"', async (probe) => {
    expect(await probed(probe)).toMatchObject({ status: 'up', store: 'postgresql' });
  });

  it('leaves only expired rows, which the deletion of expired records takes', async () => {
    await probed('write');
    await until(async () => (await count('expires_at > now()')) === 0);
    expect(await count('true')).toBeGreaterThan(0);
    await store.deleteExpired();
    expect(await count('true')).toBe(0);
  });

  it('finds a server that rejects writes by "write", not by "read"', async () => {
    const readOnly = await server.newDatabase();
    const other = postgresStore({ url: readOnly });
    await other.migrate();
    await other.close();
    const name = new URL(readOnly).pathname.slice(1);
    await observer.query(`ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
    const misled = await callingApp({}, { store: postgresStore({ url: readOnly }) });
    try {
      expect(await probed('read', 5_000, misled)).toMatchObject({ status: 'up' });
      expect(await probed('write', 200, misled)).toMatchObject(DOWN);
    } finally {
      await misled.nest.close();
    }
  });

  it.each(PROBES)(
    'that hangs is down after its time limit, and up again afterwards: "%s"',
    async (probe) => {
      await untilUp(probe);
      const { rows } = await observer.query<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE application_name = 'nestjs-idempotency'`,
      );
      // The postmaster, too: it would open new connections.
      const pids = [...rows.map(({ pid }) => pid), server.pid];
      for (const pid of pids) process.kill(pid, 'SIGSTOP');
      try {
        const reports = await Promise.all([1, 2, 3].map(() => probed(probe, 200)));
        for (const report of reports) expect(report).toMatchObject(DOWN);
      } finally {
        for (const pid of pids) process.kill(pid, 'SIGCONT');
      }
      await untilUp(probe);
    },
  );

  it('that is gone is down', async () => {
    await server.stop();
    for (const probe of PROBES) expect(await probed(probe, 200)).toMatchObject(DOWN);
  });
});
