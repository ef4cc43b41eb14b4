import type { Redis } from 'ioredis';
import { compare, type Difference, type Watcher } from './compare.js';
import { generateSequence } from './generate-sequence.js';
import type { InstrumentedScripts } from './instrumented-scripts.js';
import type { Step } from './step.js';

const SEQUENCES_PER_ROUND_TRIP = 200;

export interface Extent {
  /** Of the first sequence; each further one has the next number. */
  readonly seed: number;
  readonly sequences: number;
  /** Goes on beyond `sequences` until so many scripts were called. */
  readonly calls?: number;
  readonly watch?: Watcher;
}

export interface DifferentialResult {
  readonly sequences: number;
  readonly calls: number;
  /** The first difference found, as a text to reproduce it from. */
  readonly failure: string | undefined;
}

/** Drives reference and scripts with the same random sequences until they differ or the extent is reached. */
export async function runDifferential(
  redis: Redis,
  scripts: InstrumentedScripts,
  { seed, sequences: wanted, calls: wantedCalls = 0, watch }: Extent,
): Promise<DifferentialResult> {
  let sequences = 0;
  let calls = 0;
  while (sequences < wanted || calls < wantedCalls) {
    const first = seed + sequences;
    const batch = Array.from({ length: SEQUENCES_PER_ROUND_TRIP }, (_, index) =>
      generateSequence(first + index),
    );
    const differences = await compare(redis, scripts, batch, watch);
    sequences += batch.length;
    calls += batch.flat().filter(({ operation }) => operation !== 'lose').length;
    const failing = differences.findIndex((difference) => difference !== undefined);
    if (failing !== -1) {
      const failure = await describe(redis, scripts, first + failing, batch[failing]!);
      return { sequences, calls, failure };
    }
  }
  return { sequences, calls, failure: undefined };
}

async function describe(
  redis: Redis,
  scripts: InstrumentedScripts,
  seed: number,
  steps: readonly Step[],
): Promise<string> {
  const { shortest, difference } = await shorten(redis, scripts, steps);
  const lines = shortest.slice(0, difference.at + 1).map((step) => JSON.stringify(readable(step)));
  return [
    `Script and reference differ. Replay with DIFFERENTIAL_SEED=${seed}. The shortest such sequence:`,
    ...lines,
    `reference: ${JSON.stringify(difference.reference)}`,
    `script:    ${JSON.stringify(difference.script)}`,
  ].join('\n');
}

/** Leaves out every step without which there is still a difference. */
async function shorten(
  redis: Redis,
  scripts: InstrumentedScripts,
  steps: readonly Step[],
): Promise<{ shortest: readonly Step[]; difference: Difference }> {
  let shortest = steps;
  let [difference] = await compare(redis, scripts, [shortest]);
  for (let index = steps.length - 1; index >= 0; index -= 1) {
    const shorter = shortest.filter((_, position) => position !== index);
    const [found] = await compare(redis, scripts, [shorter]);
    if (found !== undefined) [shortest, difference] = [shorter, found];
  }
  if (difference === undefined) throw new Error('The difference did not show again');
  return { shortest, difference };
}

function readable(step: Step): unknown {
  if (step.operation !== 'complete') return step;
  const { header, body } = step.command.outcome;
  const outcome = { header, body: Buffer.from(body).toString('latin1') };
  return { ...step, command: { ...step.command, outcome } };
}
