import { parseArgs } from 'node:util';
import { randomInt } from 'node:crypto';
import { wholeNumber } from '../command-line.js';
import type { Plan } from './plan.js';

/** Requests of one shard: a process of its own. */
export const SHARD = 500_000;

export const USAGE = `npm run lab -- simulate [options]
  --requests N   at least so many requests (20000), fewer if there is an objection
  --seed S       the same seed, the same history (drawn)
  --plan JSON    one episode, as a failure prints it
  --trace        prints all that happens in that episode
  --shards       runs in processes of ${SHARD} requests, and keeps what each came to: an interrupted run goes on
  --folder PATH  where (node_modules/.cache/simulate)
  --nodes        runs ten seeds on Node 20, 22 and 24, and compares their histories
  --jobs N       processes at a time, of shards and seeds (1)
  --json         prints the summary as JSON
  --no-shrink    does not look for a smaller plan that fails
  --report NAME  keeps the figures of shards or versions in docs/measurements/figures, and shows them in the documentation`;

export interface Arguments {
  readonly requests: number;
  readonly seed: number;
  readonly plan: Plan | undefined;
  readonly trace: boolean;
  readonly shards: boolean;
  readonly folder: string;
  readonly nodes: boolean;
  readonly jobs: number;
  readonly json: boolean;
  readonly shrinks: boolean;
  readonly report: string | undefined;
}

/** @throws Error that says what is wrong with the arguments. */
export function argumentsFrom(args: readonly string[]): Arguments {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      requests: text,
      seed: text,
      plan: text,
      trace: flag,
      shards: flag,
      folder: { ...text, default: 'node_modules/.cache/simulate' },
      nodes: flag,
      jobs: text,
      json: flag,
      'no-shrink': flag,
      report: text,
    },
  });
  const { plan, trace, shards, folder, nodes, json, report } = values;
  return {
    requests: wholeNumber('requests', values.requests, 20_000, 1),
    seed: wholeNumber('seed', values.seed, randomInt(2 ** 31), 0),
    plan: plan === undefined ? undefined : (JSON.parse(plan) as Plan),
    trace,
    shards,
    folder,
    nodes,
    jobs: wholeNumber('jobs', values.jobs, 1, 1),
    json,
    shrinks: !values['no-shrink'],
    report,
  };
}
