import { migrate } from 'nestjs-idempotency/postgres';
import { createEffectsTable, readEffects } from '../../faults/effects-table.js';
import type { Random } from '../../../test/integration/differential/random.js';
import { openPostgresPool } from '../../../test/support/postgres/postgres-pool.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { RedisProxy } from '../../../test/support/redis/proxy/redis-proxy.js';
import type { Topology } from './topology.js';

/** Each worker has two pools, and leaves its backends behind for a moment when it dies. */
const MAX_CONNECTIONS = 200;

const MOST_TERMINATED_AT_ONCE = 3;

/**
 * One PostgreSQL, and a proxy for each worker, which reads none of the bytes that pass. Commits are not flushed to
 * the disk: no machine crashes here, and what is committed outlives the death of any process.
 */
export const postgres: Topology = {
  async start({ workers }) {
    const settings = { max_connections: String(MAX_CONNECTIONS) };
    const server = await startPostgres({ settings });
    const url = await server.newDatabase();
    await migrate({ url });
    const admin = openPostgresPool(url);
    await createEffectsTable(admin);
    const { rows } = await admin.query<{ server_version: string }>('SHOW server_version');
    const ways = await Promise.all(
      Array.from({ length: workers }, () => RedisProxy.start(server.port, { canAim: false })),
    );
    const urlThrough = ({ port }: RedisProxy) =>
      Object.assign(new URL(url), { port: String(port) }).href;
    return {
      servers: { PostgreSQL: rows[0]!.server_version },
      ways,
      storeFor: (slot) => ({ kind: 'postgres', url: urlThrough(ways[slot]!) }),
      terminateBackends: (random) => terminateBackends(admin, random),
      effects: () => readEffects(admin),
      async stop() {
        await admin.end();
        await Promise.all(ways.map((way) => way.stop()));
        await server.stop();
      },
    };
  },
};

/** Half of the time such as are in a transaction at that moment, if there are any. */
async function terminateBackends(
  admin: ReturnType<typeof openPostgresPool>,
  random: Random,
): Promise<number> {
  const { rows } = await admin.query<{ pid: number; isInTransaction: boolean }>(
    `SELECT pid, xact_start IS NOT NULL AS "isInTransaction" FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY pid`,
  );
  const busy = rows.filter(({ isInTransaction }) => isInTransaction);
  const candidates = random.chance(1 / 2) && busy.length > 0 ? busy : rows;
  if (candidates.length === 0) return 0;
  const wanted = random.integer(1, MOST_TERMINATED_AT_ONCE);
  const victims = new Set(Array.from({ length: wanted }, () => random.pick(candidates).pid));
  const { rows: ended } = await admin.query<{ done: boolean }>(
    'SELECT pg_terminate_backend(pid) AS done FROM unnest($1::int[]) AS victims (pid)',
    [[...victims]],
  );
  return ended.filter(({ done }) => done).length;
}
