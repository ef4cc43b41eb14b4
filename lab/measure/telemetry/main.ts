import { context, propagation, trace } from '@opentelemetry/api';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  NodeTracerProvider,
  type Sampler,
} from '@opentelemetry/sdk-trace-node';
import { keepReport, type Row } from '../../../test/support/docs/figures/report.js';
import { newCall } from '../../../test/support/engine/caller.js';
import type { Call } from '../../../test/support/internals/call.js';
import { median } from '../../bench/measuring/statistics.js';
import { fromCommandLine, valuesOf } from '../../command-line.js';
import { Contender, TASKS, type Task } from './contender.js';

/**
 * The CPU time that `telemetry` adds to a request: the engine with a store that replies at once, in blocks with and
 * without it that alternate in one process. Every request has a span if there is an SDK. A block is long enough for
 * several garbage collections: in shorter ones, now one contender pays for both, now the other.
 */
const WARM_UP_BLOCKS = 4;
/** So many blocks in a row decide. */
const STRETCH = 20;

const { report, blocks, requests } = fromCommandLine(
  'npm run lab -- measure telemetry [--blocks 40] [--requests 10000] [--report NAME]',
  valuesOf({ blocks: 40, requests: 10_000 }),
);

/** At most so many microseconds a request. */
const SDKS: readonly { sdk: string; sampler: Sampler | undefined; budgetUs: number }[] = [
  { sdk: 'none', sampler: undefined, budgetUs: 1 },
  { sdk: 'unsampled', sampler: new AlwaysOffSampler(), budgetUs: 4 },
  { sdk: 'sampled', sampler: new AlwaysOnSampler(), budgetUs: 10 },
];
/** A call has a span of its own, which the budget does not include. */
const TRANSPORTS = ['message', 'call'] as const;

/** CPU time of a request, in blocks that followed each other. */
interface Pair {
  readonly withoutUs: number;
  readonly presentUs: number;
}

const rows: Row[] = [];
for (const { sdk, sampler, budgetUs } of SDKS) {
  const provider = sampler && new NodeTracerProvider({ sampler });
  provider?.register();
  for (const transport of TRANSPORTS) {
    for (const task of TASKS) {
      const added = await measure(task, transport);
      const budget = transport === 'message' ? { budgetUs } : {};
      rows.push({ sdk, transport, task, ...added, ...budget });
    }
  }
  await provider?.shutdown();
  trace.disable();
  context.disable();
  propagation.disable();
}
console.table(rows);
keepReport(report, 'measure telemetry', [], {}, rows);

async function measure(task: Task, transport: Call['transport']) {
  const [without, present] = [new Contender(task, false), new Contender(task, true)];
  const call = { ...newCall(), transport };
  const pairs: Pair[] = [];
  for (let block = -WARM_UP_BLOCKS; block < blocks; block += 1) {
    const order = block % 2 === 0 ? [without, present] : [present, without];
    const us = new Map<Contender, number>();
    for (const contender of order) us.set(contender, await contender.block(call, requests));
    if (block >= 0) pairs.push({ withoutUs: us.get(without)!, presentUs: us.get(present)! });
  }
  present.stop();
  const quiet = quietest(pairs);
  return {
    withoutUs: rounded(median(quiet.map(({ withoutUs }) => withoutUs))),
    presentUs: rounded(median(quiet.map(({ presentUs }) => presentUs))),
    addedUs: rounded(median(quiet.map(addedUs))),
    addedUsOfAll: rounded(median(pairs.map(addedUs))),
  };
}

/**
 * Chosen by the blocks without telemetry, where the other processes of the machine left the most to this one: a shared
 * core takes up to three times as long for everything.
 */
function quietest(pairs: readonly Pair[]): readonly Pair[] {
  const stretches = pairs
    .slice(0, Math.max(1, pairs.length - STRETCH + 1))
    .map((_, start) => pairs.slice(start, start + STRETCH));
  const cost = (stretch: readonly Pair[]) => median(stretch.map(({ withoutUs }) => withoutUs));
  return stretches.reduce((best, stretch) => (cost(stretch) < cost(best) ? stretch : best));
}

function addedUs({ withoutUs, presentUs }: Pair): number {
  return presentUs - withoutUs;
}

function rounded(us: number): number {
  return Math.round(us * 100) / 100;
}
