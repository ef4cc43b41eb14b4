/**
 * What the PostgreSQL store costs beside the statements that one would write by hand. The contestants alternate on one
 * server, so that whatever else the machine does hits them alike; what counts are the ratios of one round.
 */
import { randomBytes } from 'node:crypto';
import { Pool } from 'pg';
import { fromPg } from 'nestjs-idempotency/pg';
import { migrate, postgresStore } from 'nestjs-idempotency/postgres';
import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { argumentsOf, fromCommandLine, valuesOf } from '../../command-line.js';
import { insertThenSelect, rawPair, storePair, storeReplay, type Task } from './contestants.js';

const CONNECTIONS = 16;
const KEYS_TO_REPLAY = 10_000;

const USAGE =
  'npm run lab -- bench postgres [--rounds N] [--seconds N] [--fsync on|off] [--report NAME]';
const { report, fsync, ...settings } = fromCommandLine(
  USAGE,
  valuesOf({ rounds: 7, seconds: 3, fsync: 'on' }),
);
const { rounds, seconds } = settings;

// As one runs it where money is at stake: a commit is on the disk before it is confirmed.
const server = await startPostgres({ settings: { fsync } });
try {
  const url = await server.newDatabase();
  const pool = new Pool({ connectionString: url, max: CONNECTIONS });
  pool.on('error', () => undefined);
  const store = postgresStore({ url, connection: { max: CONNECTIONS } });
  await store.migrate();
  await migrate({ executor: fromPg(pool), table: 'by_hand' });

  const newKey = () => randomBytes(32);
  const known = Array.from({ length: KEYS_TO_REPLAY }, newKey);
  const anyKnown = () => known[Math.floor(Math.random() * known.length)] ?? newKey();
  await eachOf(known, storePair(store));
  await eachOf(known, rawPair(pool, 'by_hand'));

  const contestants = {
    rawPair: () => rateOf(rawPair(pool, 'by_hand'), newKey),
    storePair: () => rateOf(storePair(store), newKey),
    insertThenSelect: () => rateOf(insertThenSelect(pool, 'by_hand'), anyKnown),
    storeReplay: () => rateOf(storeReplay(store), anyKnown),
  };
  const measured: Record<keyof typeof contestants, number>[] = [];
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1) {
    const rates = { rawPair: 0, storePair: 0, insertThenSelect: 0, storeReplay: 0 };
    const names = Object.keys(contestants) as (keyof typeof contestants)[];
    // The first contestant finds the server in another state than the last one.
    for (const name of round % 2 === 0 ? names : [...names].reverse()) {
      rates[name] = await contestants[name]();
    }
    if (round > 0) measured.push(rates);
    console.error(`round ${round} of ${rounds}`, rates);
  }

  const table: Row[] = [
    row(
      'begin + complete ÷ INSERT + UPDATE',
      0.88,
      measured.map((r) => r.storePair / r.rawPair),
    ),
    row(
      'replay ÷ INSERT, then SELECT',
      1.4,
      measured.map((r) => r.storeReplay / r.insertThenSelect),
    ),
  ];
  console.table(table);
  console.table(
    (Object.keys(contestants) as (keyof typeof contestants)[]).map((name) => ({
      what: name,
      'per second': Math.round(median(measured.map((rates) => rates[name]))),
    })),
  );
  const { rows } = await pool.query<{ server_version: string }>('SHOW server_version');
  const servers = { PostgreSQL: rows[0]?.server_version ?? '' };
  keepReport(report, 'bench postgres', argumentsOf(settings), servers, table);
  await store.close();
  await pool.end();
} finally {
  await server.stop();
}

/** How often a second the task is done, by as many at once as there are connections. */
async function rateOf(task: Task, key: () => Buffer): Promise<number> {
  const started = performance.now();
  const end = started + seconds * 1000;
  let count = 0;
  const worker = async () => {
    while (performance.now() < end) {
      await task(key());
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  return Math.round((count * 1000) / (performance.now() - started));
}

async function eachOf(keys: readonly Buffer[], task: Task): Promise<void> {
  const left = keys.values();
  const worker = async () => {
    for (const key of left) await task(key);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}

function row(what: string, least: number, ratios: readonly number[]): Row {
  const [min, max] = [Math.min(...ratios), Math.max(...ratios)];
  return {
    what,
    'at least': least,
    median: hundredths(median(ratios)),
    min: hundredths(min),
    max: hundredths(max),
  };
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? NaN)) / 2;
}

function hundredths(value: number): string {
  return value.toFixed(2);
}
