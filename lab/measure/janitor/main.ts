/**
 * Whether the deletion of expired records keeps up, and what it leaves to vacuum. A process of its own does first requests
 * at a steady rate, begin and complete through the store, whose records expire after some seconds; the store of
 * this one deletes them.
 */
import { keepReport } from '../../../test/support/docs/figures/keep-report.js';
import type { Row } from '../../../test/support/docs/figures/report.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { argumentsOf, fromCommandLine, valuesOf } from '../../command-line.js';
import { figuresOf } from '../outage/figures.js';
import { runJanitor } from './run-janitor.js';

const RETENTION_MS = 5_000;

/** Autovacuum is as it comes in all else. */
const SETUPS = [
  { what: '5 s', naptime: '5s', intervalMs: 5_000, hasLongTransaction: false },
  {
    what: '5 s, and a transaction that is open all the time',
    naptime: '5s',
    intervalMs: 5_000,
    hasLongTransaction: true,
  },
  {
    what: '1 min, the defaults',
    naptime: '1min',
    intervalMs: 60_000,
    hasLongTransaction: false,
  },
];

const USAGE = 'npm run lab -- measure janitor [--rate N] [--seconds N] [--report NAME]';
const { report, ...load } = fromCommandLine(USAGE, valuesOf({ rate: 2_000, seconds: 60 }));

let version = '';
const rows: Row[] = [];
for (const { what, naptime, ...setup } of SETUPS) {
  // A commit is on the disk before it is confirmed.
  const server = await startPostgres({ settings: { fsync: 'on', autovacuum_naptime: naptime } });
  try {
    const run = { ...setup, ...load, retentionMs: RETENTION_MS };
    const figures = await runJanitor(await server.newDatabase(), run);
    version = figures.version;
    const { count, p99, max } = figuresOf(figures.batches);
    rows.push({
      'naptime and intervalMs': what,
      'records a second': Math.round(figures.rate),
      deleted: figures.deleted,
      left: figures.left,
      'dead rows at the most': figures.deadRows,
      batches: count,
      'p99 ms': p99,
      'longest ms': max,
    });
    process.stderr.write(`${what}: ${figures.samples.join(' ')}\n`);
  } finally {
    await server.stop();
  }
}
console.table(rows);
keepReport(report, 'measure janitor', argumentsOf(load), { PostgreSQL: version }, rows);
