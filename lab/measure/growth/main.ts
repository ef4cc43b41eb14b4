/**
 * Whether anything grows with the requests that an application has answered. Fails when the heap after the last tenth of the requests is 10 MB above that after the first, or when there are
 * more listeners, timers, sockets, promises or active resources.
 */
import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import { fromCommandLine } from '../../command-line.js';
import { planOf } from './arguments.js';
import { measureGrowth } from './measure-growth.js';
import { growthsIn } from './reading.js';
import { rowOf } from './row.js';

const HEAP_MAY_GROW_BYTES = 10_000_000;

const USAGE =
  'npm run lab -- measure growth [--requests N] [--platform express|fastify] [--store redis|memory] [--report NAME]';
const { platforms, store, chunks, requestsPerChunk, report, args } = fromCommandLine(USAGE, planOf);
const rows: Row[] = [];
const growths: string[] = [];
let versions = {};
for (const platform of platforms) {
  const run = await measureGrowth({
    platform,
    store,
    chunks,
    requestsPerChunk,
    onReading: (reading) => {
      process.stderr.write(`${new Date().toISOString()} ${platform} ${JSON.stringify(reading)}\n`);
    },
  });
  rows.push(...run.readings.map((reading) => rowOf(platform, reading)));
  growths.push(
    ...growthsIn(run.readings, HEAP_MAY_GROW_BYTES).map((growth) => `${platform}: ${growth}`),
  );
  ({ versions } = run);
}
console.table(rows);
for (const growth of growths) console.error(growth);
process.exitCode = growths.length === 0 ? 0 : 1;
keepReport(report, 'measure growth', args, versions, rows);
