/**
 * What partitioning changes, in a table of many records. Two tables on one server, one of them partitioned as
 * docs/operations/postgres.md says, alternate.
 */
import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { PostgresIdempotencyStore } from 'nestjs-idempotency/postgres';
import { documentedSql } from '../../../test/support/docs/documented-sql.js';
import { keepReport } from '../../../test/support/docs/figures/keep-report.js';
import type { Row } from '../../../test/support/docs/figures/report.js';
import { openPostgresPool } from '../../../test/support/postgres/postgres-pool.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { argumentsOf, fromCommandLine, valuesOf } from '../../command-line.js';
import { TimedPool } from '../janitor/timed-pool.js';
import { figuresOf } from '../outage/figures.js';
import { storePair, storeReplay, type Task } from '../postgres/contestants.js';

const CONNECTIONS = 16;
const KEYS_TO_REPLAY = 10_000;
/** Part of the records that is expired, for the deletion. */
const EXPIRED = 0.1;

const USAGE =
  'npm run lab -- measure partitions [--records N] [--rounds N] [--seconds N] [--report NAME]';
const { report, ...sizes } = fromCommandLine(
  USAGE,
  valuesOf({ records: 2_000_000, rounds: 5, seconds: 3 }),
);
const { records, rounds, seconds } = sizes;

interface Contestant {
  readonly name: string;
  readonly pool: Pool;
  readonly store: PostgresIdempotencyStore;
  readonly known: readonly Buffer[];
  readonly pairs: number[];
  readonly replays: number[];
}

// Vacuum is measured by itself, and a commit is on the disk before it is confirmed.
const server = await startPostgres({
  settings: { fsync: 'on', autovacuum: 'off', max_wal_size: '4GB' },
});
try {
  const whole = await contestant('one table');
  const partitioned = await contestant('16 partitions', documentedSql('PARTITION BY HASH'));
  const both = [whole, partitioned];
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const one of round % 2 === 0 ? both : [...both].reverse()) {
      const pairs = await rateOf(storePair(one.store), () => randomBytes(32));
      const replays = await rateOf(storeReplay(one.store), () => anyOf(one.known));
      if (round === 0) continue;
      one.pairs.push(pairs);
      one.replays.push(replays);
    }
    process.stderr.write(`round ${round} of ${rounds}\n`);
  }
  const rows: Row[] = [];
  for (const one of both) rows.push(await figures(one));
  console.table(rows);
  const { rows: versions } = await whole.pool.query<{ server_version: string }>(
    'SHOW server_version',
  );
  for (const { store, pool } of both) await Promise.all([store.close(), pool.end()]);
  const servers = { PostgreSQL: versions[0]?.server_version ?? '' };
  keepReport(report, 'measure partitions', argumentsOf(sizes), servers, rows);
} finally {
  await server.stop();
}

/** In a database of its own, since both tables have one name. */
async function contestant(name: string, conversion?: string): Promise<Contestant> {
  const pool = openPostgresPool(await server.newDatabase(), { max: CONNECTIONS });
  const store = new PostgresIdempotencyStore({ client: pool, deleteExpired: false });
  await store.migrate();
  if (conversion !== undefined) await pool.query(conversion);
  await pool.query(
    `INSERT INTO idempotency_records (
       record_key, state, token, fence, fingerprint, attempt, takeovers, expires_at, outcome_header, outcome_body
     )
     SELECT sha256(number::text::bytea), 'completed', repeat('t', 22), number, repeat('f', 22), 1, 0,
       now() + (number / $1::float - $2::float) * interval '1 day', repeat('h', 60)::bytea, repeat('b', 200)::bytea
     FROM generate_series(1, $1::integer) AS number`,
    [records, EXPIRED],
  );
  await pool.query('VACUUM ANALYZE idempotency_records');
  const known = Array.from({ length: KEYS_TO_REPLAY }, () => randomBytes(32));
  const left = known.values();
  const pair = storePair(store);
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      for (const key of left) await pair(key);
    }),
  );
  process.stderr.write(`${name}: filled\n`);
  return { name, pool, store, known, pairs: [], replays: [] };
}

/** Deletes what has expired, and vacuums what is left. */
async function figures({ name, pool, pairs, replays }: Contestant): Promise<Row> {
  const timed = new TimedPool(pool);
  const store = new PostgresIdempotencyStore({ client: timed, deleteExpired: false });
  const { deleted } = await store.deleteExpired();
  const batches = figuresOf(timed.durations);
  const vacuums = await vacuum(pool);
  return {
    what: name,
    'begin + complete a second': Math.round(median(pairs)),
    'replays a second': Math.round(median(replays)),
    deleted,
    'batch p50 ms': batches.p50,
    'p99 ms': batches.p99,
    'longest ms': batches.max,
    'vacuum ms': Math.round(vacuums.reduce((sum, ms) => sum + ms, 0)),
    'longest vacuum ms': Math.round(Math.max(...vacuums)),
  };
}

/** @returns how long each table took that holds records. */
async function vacuum(pool: Pool): Promise<number[]> {
  const { rows } = await pool.query<{ name: string }>(
    `SELECT relid::text AS name FROM pg_partition_tree('idempotency_records') WHERE isleaf
     UNION SELECT 'idempotency_records' WHERE NOT EXISTS (
       SELECT 1 FROM pg_partition_tree('idempotency_records') WHERE isleaf)`,
  );
  const durations: number[] = [];
  for (const { name } of rows) {
    const startedAt = performance.now();
    await pool.query(`VACUUM ${name}`);
    durations.push(performance.now() - startedAt);
  }
  return durations;
}

/** How often a second the task is done, by as many at once as there are connections. */
async function rateOf(task: Task, key: () => Buffer): Promise<number> {
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1000;
  let count = 0;
  const worker = async () => {
    while (performance.now() < endsAt) {
      await task(key());
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  return (count * 1000) / (performance.now() - startedAt);
}

function anyOf(keys: readonly Buffer[]): Buffer {
  return keys[Math.floor(Math.random() * keys.length)] ?? Buffer.alloc(0);
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((one, other) => one - other);
  return sorted[sorted.length >> 1] ?? NaN;
}
