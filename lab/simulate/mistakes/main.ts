/** Plants one mistake after the other, and prints after how many requests the simulation objects to it. */
import { execFile } from 'node:child_process';
import { parseArgs, promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { typescriptNodeOptions } from '../../../test/support/typescript/node-options.js';
import { fromCommandLine, wholeNumber } from '../../command-line.js';
import { MISTAKES } from './index.js';
import type { Mistake } from './mistake.js';
import type { Catch } from './hunt.js';
import { record, recorded, type Recorded } from './recorded.js';

const USAGE = `npm run lab -- simulate mistakes [--only TEXT] [--new] [--requests 200000] [--seed 1] [--jobs 1] [--record]

  --only      the mistakes whose name or file contains it
  --new       those of which nothing is recorded
  --requests  how many requests at most for each
  --jobs      how many at a time
  --record    writes what found them to mistakes/recorded.json, which test:all replays`;

/** Some mistakes never let an episode end. */
const LONGEST_MS = 900_000;

const { only, isNew, requests, seed, jobs, isRecorded } = fromCommandLine(USAGE, (args) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string', default: '' },
      new: { type: 'boolean', default: false },
      requests: { type: 'string' },
      seed: { type: 'string' },
      jobs: { type: 'string' },
      record: { type: 'boolean', default: false },
    },
  });
  return {
    only: values.only,
    isNew: values.new,
    requests: wholeNumber('requests', values.requests, 200_000, 1),
    seed: wholeNumber('seed', values.seed, 1, 0),
    jobs: wholeNumber('jobs', values.jobs, 1, 1),
    isRecorded: values.record,
  };
});

const known = new Set(isNew ? recorded().map(({ mistake }) => mistake) : []);
const chosen = MISTAKES.filter(
  ({ mistake, file }) => !known.has(mistake) && `${file}: ${mistake}`.includes(only),
);
const catches = new Map<Mistake, Catch | Error>();
// Those that are found first: the others take all their requests.
const waiting = [...chosen].sort((a, b) => Number('harmless' in a) - Number('harmless' in b));
await Promise.all(Array.from({ length: jobs }, work));
summarize();

async function work(): Promise<void> {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const caught = await hunt(next);
    catches.set(next, caught);
    if (isRecorded) keep(next, caught);
    console.log(lineOf(next, caught));
  }
}

async function hunt({ mistake }: Mistake): Promise<Catch | Error> {
  const program = fileURLToPath(new URL('hunt.ts', import.meta.url));
  const args = [...typescriptNodeOptions, program, mistake, String(seed), String(requests)];
  try {
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      timeout: LONGEST_MS,
      killSignal: 'SIGKILL',
      maxBuffer: 2 ** 26,
    });
    return JSON.parse(stdout) as Catch;
  } catch (error) {
    return error as Error;
  }
}

function lineOf({ mistake, file, harmless }: Mistake, caught: Catch | Error): string {
  const name = `${mistake} (${file})`;
  if (caught instanceof Error) return `BROKEN   ${name}: ${caught.message}`;
  const { found, cpuSeconds } = caught;
  const cost = `${caught.requests} requests, ${cpuSeconds.toFixed(1)} s`;
  if (found === undefined) {
    return harmless === undefined
      ? `MISSED   ${name}: ${cost}`
      : `harmless ${name}: ${cost}. ${harmless}`;
  }
  return `found    ${name}: ${cost}, shrunk to ${found.plan.requests}. ${found.objection}`;
}

function keep({ mistake }: Mistake, caught: Catch | Error): void {
  if (caught instanceof Error || caught.found === undefined) return;
  const { objection, plan } = caught.found;
  const order = MISTAKES.map((each) => each.mistake);
  const others = recorded().filter((known) => known.mistake !== mistake);
  const all: Recorded[] = [...others, { mistake, objection, plan }];
  record(all.sort((a, b) => order.indexOf(a.mistake) - order.indexOf(b.mistake)));
}

function summarize(): void {
  const asExpected = [...catches].filter(
    ([{ harmless }, caught]) =>
      !(caught instanceof Error) && (caught.found === undefined) === (harmless !== undefined),
  );
  console.log(`${asExpected.length} of ${chosen.length} came out as expected.`);
  if (asExpected.length < chosen.length) process.exitCode = 1;
}
