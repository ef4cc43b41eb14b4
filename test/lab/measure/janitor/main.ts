/**
 * Whether the deletion of expired records keeps up, and what it leaves to vacuum:
 * `npm run measure:janitor -- [--rate N] [--seconds N] [--report NAME]`. A process of its own does first requests
 * at a steady rate, begin and complete through the store, whose records expire after some seconds; the store of
 * this one deletes them.
 */
import { parseArgs } from 'node:util';
import { keepReport } from '../../../support/figures/keep-report.js';
import type { Row } from '../../../support/figures/report.js';
import { startPostgres } from '../../../support/postgres-server.js';
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

const { values } = parseArgs({
  options: {
    rate: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '60' },
    report: { type: 'string' },
  },
});
const { rate, seconds } = values;

let version = '';
const rows: Row[] = [];
for (const { what, naptime, ...setup } of SETUPS) {
  // A commit is on the disk before it is confirmed.
  const server = await startPostgres({ settings: { fsync: 'on', autovacuum_naptime: naptime } });
  try {
    const run = { ...setup, rate: Number(rate), seconds: Number(seconds) };
    const figures = await runJanitor(await server.newDatabase(), {
      ...run,
      retentionMs: RETENTION_MS,
    });
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
if (values.report !== undefined) {
  const args = ['--rate', rate, '--seconds', seconds];
  keepReport(values.report, 'measure:janitor', args, { PostgreSQL: version }, rows);
}
