/**
 * What a request costs in figures that hold on any machine and beside whatever else it does: bytes, promises, instructions.
 * Fails where one is above what was recorded.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { fromCommandLine } from '../../command-line.js';
import { countInstructions } from './instructions.js';
import { CountedApp } from './requests.js';

const USAGE = `npm run lab -- bench counts [--record] [--streams]

  --record   writes what is counted into lab/bench/counted/figures.json, from which later runs may differ by 3 %
  --streams  without the fast path, beside nothing recorded`;

const MOST = 1.03;
const FILE = join(import.meta.dirname, 'figures.json');

type Counts = Record<string, number>;

/** By the major version of Node, which has promises and objects of its own. */
type Figures = Record<string, Counts>;

const { record, streams } = fromCommandLine(USAGE, (args) => {
  const options = { record: { type: 'boolean' }, streams: { type: 'boolean' } } as const;
  return parseArgs({ args: [...args], options }).values;
});

const counts: Counts = {};
const redis = await startRedis();
try {
  const instructions = streams ? undefined : countInstructions();
  let bare: Awaited<ReturnType<CountedApp['count']>> | undefined;
  for (const isBesideAnother of [false, true]) {
    const setup = { redisUrl: redis.url, isBesideAnother, fastPath: streams !== true };
    const app = await CountedApp.start(setup);
    const beside = isBesideAnother ? ' beside a global interceptor' : '';
    if (!isBesideAnother) {
      bare = await app.count('/bare', 'first');
      note('promises without protection', bare.promises);
      const [held, empty] = [await app.inFlight('/held'), await app.inFlight('/bare-held')];
      note('KiB of heap while the handler runs', held - empty);
    }
    for (const kind of ['first', 'replay'] as const) {
      const { kib, promises } = await app.count('/payments', kind);
      note(`KiB allocated, ${kind}${beside}`, kib - bare!.kib);
      note(`promises, ${kind}${beside}`, promises);
    }
    await app.stop();
  }
  const counted = await instructions;
  if (counted !== undefined) {
    note('instructions of a pair ÷ one-line scripts', counted.pair / counted.pairOfOneLine);
    for (const [name, value] of Object.entries(counted)) note(`instructions, ${name}`, value);
  }
} finally {
  await redis.stop();
}

const figures = JSON.parse(readFileSync(FILE, 'utf8')) as Figures;
const major = process.versions.node.split('.')[0] ?? '';
const recorded = figures[major] ?? {};
if (record !== true && figures[major] === undefined) {
  console.log(`Nothing is recorded for Node ${major}: nothing is held.`);
}
const rows = Object.entries(counts).map(([what, now]) => {
  const was = recorded[what];
  if (was === undefined) return { what, now, verdict: 'not recorded' };
  const isHeld = now <= was * MOST;
  if (!isHeld && record !== true && streams !== true) process.exitCode = 1;
  return { what, recorded: was, now, verdict: isHeld ? 'held' : 'above' };
});
console.table(rows);
if (record) {
  writeFileSync(FILE, `${JSON.stringify({ ...figures, [major]: counts }, null, 2)}\n`);
}

/** Above no protection, where they are bytes; in all, where they are promises. */
function note(what: string, value: number): void {
  counts[what] = Number(value.toFixed(value < 1_000 ? 2 : 0));
}
