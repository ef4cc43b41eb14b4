import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import { Child } from '../../../test/support/processes/child.js';
import { median } from '../../bench/measuring/statistics.js';
import { fromCommandLine, valuesOf } from '../../command-line.js';
import { askForLarge } from './ask.js';
import type { BodiesSettings } from './server.js';

/**
 * What it costs to store a large body before it is sent, and to send it again, beside the same by hand: a first response
 * beside a route that writes, syncs, hashes, reads back and sends; a replay beside a route that sends the file. All four
 * alternate in one process.
 */
const { report, rounds, megabytes } = fromCommandLine(
  'npm run lab -- measure streams [--rounds 9] [--megabytes 64] [--report NAME]',
  valuesOf({ rounds: 9, megabytes: 64 }),
);
const ROUTES = ['bare-first', 'file', 'bare', 'replay'] as const;
type Route = (typeof ROUTES)[number];

const bytes = megabytes * 1_000_000;
const directory = await mkdtemp(join(tmpdir(), 'idempotency-streams-'));
const server = await Child.start(new URL('server.ts', import.meta.url));
const settings: BodiesSettings = {
  platform: 'express',
  blobs: { kind: 'file', directory },
  bytes,
  directory,
};
const port = await server.call<number>('start', settings);
const found: Record<Route, number[]> = { 'bare-first': [], file: [], bare: [], replay: [] };
for (let round = -1; round < rounds; round += 1) {
  // A replay needs the first response of its key.
  const order = round % 2 === 0 ? ROUTES : (['file', 'replay', 'bare-first', 'bare'] as const);
  for (const route of order) {
    const perSecond = await run(route, `round-${round}`);
    if (round >= 0) found[route].push(perSecond);
  }
  process.stderr.write(`round ${round + 1} of ${rounds} done\n`);
}
await server.stop();
await rm(directory, { recursive: true });

const rows: Row[] = [row('first response', 'file', 'bare-first'), row('replay', 'replay', 'bare')];
console.table(rows);
keepReport(report, 'measure streams', [], {}, rows);

/** @returns megabytes per second. */
async function run(route: Route, key: string): Promise<number> {
  const path = route === 'replay' ? 'file' : route;
  const startedAt = performance.now();
  const reply = await askForLarge(port, path, key, false);
  const seconds = (performance.now() - startedAt) / 1_000;
  const isExpected = reply.bytes === bytes && reply.isReplayed === (route === 'replay');
  if (!isExpected) throw new Error(`${route}: ${JSON.stringify(reply)}`);
  return megabytes / seconds;
}

function row(what: string, ours: Route, bare: Route): Row {
  const ratio = median(found[ours].map((each, i) => each / (found[bare][i] ?? NaN)));
  return {
    what,
    MB: megabytes,
    'MB/s': Math.round(median(found[ours])),
    'MB/s, by hand': Math.round(median(found[bare])),
    ratio: Number(ratio.toFixed(2)),
  };
}
