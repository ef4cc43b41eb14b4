import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { PostgresIdempotencyStore, type DeletionReport } from 'nestjs-idempotency/postgres';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { typescriptNodeOptions } from '../../../support/typescript/node-options.js';
import { TimedPool } from './timed-pool.js';

export interface JanitorRun {
  /** First requests a second, and for how long. */
  readonly rate: number;
  readonly seconds: number;
  /** How long a record is kept from its completion. */
  readonly retentionMs: number;
  /** See `deleteExpired` of the store. */
  readonly intervalMs: number;
  /** Whether a transaction of the application is open all the time, and holds vacuum up. */
  readonly hasLongTransaction: boolean;
}

export interface JanitorFigures {
  /** First requests that were done, a second. */
  readonly rate: number;
  readonly records: number;
  readonly deleted: number;
  /** Counted in the table when nothing was left to delete. */
  readonly left: number;
  /** The most that any sample found. */
  readonly deadRows: number;
  /** One for each second. */
  readonly samples: readonly number[];
  /** Milliseconds of each batch. */
  readonly batches: readonly number[];
  /** Of the server. */
  readonly version: string;
}

const SAMPLE_MS = 1_000;

/** Lets a store delete what first requests at a steady rate leave behind, in a table of its own. */
export async function runJanitor(url: string, run: JanitorRun): Promise<JanitorFigures> {
  const observer = openPostgresPool(url, { max: 2 });
  const ownPool = openPostgresPool(url, { max: 1 });
  const timed = new TimedPool(ownPool);
  const reports: DeletionReport[] = [];
  const failures: Error[] = [];
  const janitor = new PostgresIdempotencyStore({
    client: timed,
    deleteExpired: { interval: run.intervalMs },
    onDeleted: (report) => void reports.push(report),
    onDeletionError: (error) => void failures.push(error),
  });
  await janitor.migrate();
  await janitor.open();
  timed.durations.length = 0;
  const endTransaction = run.hasLongTransaction ? await openTransaction(observer) : undefined;

  const load = fork(new URL('janitor-load.ts', import.meta.url), {
    execArgv: [...typescriptNodeOptions],
    env: {
      ...process.env,
      DATABASE_URL: url,
      RATE: String(run.rate),
      RETENTION_MS: String(run.retentionMs),
    },
  });
  const samples: number[] = [];
  const startedAt = performance.now();
  for (let sample = 1; sample * SAMPLE_MS <= run.seconds * 1000; sample += 1) {
    await delay(startedAt + sample * SAMPLE_MS - performance.now());
    samples.push(await deadRows(observer));
  }
  load.send('end');
  const [{ records, seconds }] = (await once(load, 'message')) as [
    { records: number; seconds: number },
  ];

  const deleted = () => reports.reduce((sum, report) => sum + report.deleted, 0);
  // What came last has to expire, and a round to come by.
  const timeoutMs = performance.now() + run.retentionMs + 2 * run.intervalMs + 30_000;
  while (deleted() < records && performance.now() < timeoutMs) {
    await delay(SAMPLE_MS);
    samples.push(await deadRows(observer));
  }
  await endTransaction?.();
  await janitor.close();
  if (failures[0] !== undefined) throw failures[0];
  const { rows } = await observer.query<{ left: number; server_version: string }>(
    `SELECT count(*)::integer AS left, current_setting('server_version') AS server_version
     FROM idempotency_records`,
  );
  const [{ left, server_version: version } = { left: NaN, server_version: '' }] = rows;
  await Promise.all([observer.end(), ownPool.end()]);
  return {
    rate: records / seconds,
    records,
    deleted: deleted(),
    left,
    deadRows: Math.max(...samples),
    samples,
    batches: timed.durations,
    version,
  };
}

/** As autovacuum sees them. */
async function deadRows(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ dead: number }>(
    `SELECT n_dead_tup::integer AS dead FROM pg_stat_user_tables WHERE relname = 'idempotency_records'`,
  );
  return rows[0]?.dead ?? NaN;
}

async function openTransaction(pool: Pool): Promise<() => Promise<void>> {
  const connection = await pool.connect();
  await connection.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await connection.query('SELECT count(*) FROM idempotency_records');
  return async () => {
    await connection.query('COMMIT');
    connection.release();
  };
}
