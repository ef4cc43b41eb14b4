import type { Row } from '../../../support/docs/figures/report.js';
import type { Factors } from '../measuring/interleave.js';
import { pairedRatio, type Ratio } from '../measuring/statistics.js';
import { find, metric, type Results } from './result.js';

/** What has to hold, and what would be better. */
export interface BudgetLine {
  readonly what: string;
  readonly limit: 'at least' | 'at most';
  readonly must: number;
  readonly aim?: number;
  /** `undefined` where it has not been measured. */
  readonly measured: Measured;
  /** The same of what is written by hand and does the least: what stands between it and one is not ours. */
  readonly byHand?: Measured;
}

type Measured = (results: Results) => Ratio | undefined;

export interface Judged {
  readonly line: BudgetLine;
  readonly ratio: Ratio;
  readonly byHand?: Ratio | undefined;
  readonly verdict: 'aim met' | 'must met' | 'missed' | 'missed, by hand too';
  /** Whether the interval leaves no doubt about the must. */
  readonly isCertain: boolean;
}

const STORE = 'nestjs-idempotency';
const OURS = 'nestjs-idempotency, Redis';
const PEER = '@node-idempotency/nestjs';
const EMPTY = 'empty interceptor';
const RAW = 'SET NX GET + SET XX';
const IN_SCRIPTS = 'the same in scripts';

export const BUDGET: readonly BudgetLine[] = [
  storePairs('on', 32, 0.75, 0.85),
  storePairs('on', 256, 0.65, 0.75),
  storePairs('off', 32, 0.9, 0.95),
  storePairs('off', 1, 0.8, 0.9),
  firstRequest('express', 1.2, 1.1),
  firstRequest('fastify', 1.4, 1.25),
  replay('express', 0.72, 0.85),
  replay('fastify', 0.75, 0.9),
  ...(['express', 'fastify'] as const).flatMap((platform) => [
    againstPeer(platform, 'first', 0.95, 1.1),
    againstPeer(platform, 'replay', 1.05, 1.2),
  ]),
  {
    what: 'memory of a record: key 59 B, body 200 B, headers 68 B',
    limit: 'at most',
    must: 552,
    aim: 488,
    measured: (results) => {
      const memory = results.get('memory');
      const record = memory && find(memory, OURS, { outcomeBytes: 'budget' });
      const bytes = metric(record, 'bytes')?.median;
      return bytes === undefined ? undefined : { estimate: bytes, low: bytes, high: bytes };
    },
  },
  {
    what: 'PostgreSQL: begin + complete ÷ INSERT + UPDATE',
    limit: 'at least',
    must: 0.88,
    aim: 0.95,
    measured: ratioOf('postgres', { task: 'pair' }, STORE, 'INSERT + UPDATE', 'perSecond'),
  },
  {
    what: 'PostgreSQL: replay ÷ INSERT, then SELECT',
    limit: 'at least',
    must: 1.4,
    aim: 1.7,
    measured: ratioOf('postgres', { task: 'replay' }, STORE, 'INSERT, then SELECT', 'perSecond'),
  },
  {
    what: 'begin + complete with 1,000,000 records ÷ with 10,000',
    limit: 'at least',
    must: 0.9,
    measured: ratioOf('growth', { by: 'records', task: 'pair' }, '1000000', '10000', 'perSecond'),
  },
];

/** All lines that the results have something to say to. */
export function judge(results: Results): Judged[] {
  return BUDGET.flatMap((line): Judged[] => {
    const ratio = line.measured(results);
    if (ratio === undefined) return [];
    const byHand = line.byHand?.(results);
    const isAtLeast = line.limit === 'at least';
    const reaches = (value: number, bound: number) => (isAtLeast ? value >= bound : value <= bound);
    const isCertain = ratio.high < line.must || ratio.low > line.must || ratio.low === ratio.high;
    if (!reaches(ratio.estimate, line.must)) {
      // Only if it is certain, and if we are not the better of the two.
      const best = byHand && (isAtLeast ? byHand.high : byHand.low);
      const alsoByHand =
        best !== undefined && !reaches(best, line.must) && reaches(best, ratio.estimate);
      return [
        { line, ratio, byHand, verdict: alsoByHand ? 'missed, by hand too' : 'missed', isCertain },
      ];
    }
    const hasAim = line.aim !== undefined && reaches(ratio.estimate, line.aim);
    return [{ line, ratio, byHand, verdict: hasAim ? 'aim met' : 'must met', isCertain }];
  });
}

export function budgetRows(results: Results): Row[] {
  return judge(results).map(({ line, ratio, byHand, verdict, isCertain }) => ({
    what: line.what,
    must: `${line.limit} ${line.must}`,
    aim: line.aim ?? '–',
    measured: inDigits(ratio.estimate),
    '95 % interval': ratio.low === ratio.high ? 'exact' : intervalOf(ratio),
    'by hand': byHand === undefined ? '–' : `${inDigits(byHand.estimate)} (${intervalOf(byHand)})`,
    verdict: isCertain ? verdict : `${verdict}, not certain`,
  }));
}

export function intervalOf({ low, high }: Ratio): string {
  return `${inDigits(low)} to ${inDigits(high)}`;
}

export function inDigits(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(2);
}

function storePairs(
  pipelining: 'on' | 'off',
  inFlight: number,
  must: number,
  aim: number,
): BudgetLine {
  const factors = { task: 'pair', via: 'TCP', pipelining, bytes: 200, inFlight };
  return {
    what: `begin + complete ÷ ${RAW}, auto-pipelining ${pipelining}, ${inFlight} in flight`,
    limit: 'at least',
    must,
    aim,
    ...against(RAW, STORE, IN_SCRIPTS, 'store', factors, 'perSecond'),
  };
}

function firstRequest(platform: string, must: number, aim: number): BudgetLine {
  return {
    what: `first request, CPU ÷ an empty interceptor's, ${platform}`,
    limit: 'at most',
    must,
    aim,
    ...against(EMPTY, OURS, RAW, 'http', at(platform, 'first'), 'cpuUs'),
  };
}

function replay(platform: string, must: number, aim: number): BudgetLine {
  return {
    what: `replay, requests/s ÷ the bare route's, ${platform}`,
    limit: 'at least',
    must,
    aim,
    ...against('bare route', OURS, RAW, 'http', at(platform, 'replay'), 'perSecond'),
  };
}

function againstPeer(platform: string, scenario: string, must: number, aim: number): BudgetLine {
  return {
    what: `${scenario === 'first' ? 'first request' : scenario}, requests/s ÷ ${PEER}'s, ${platform}`,
    limit: 'at least',
    must,
    aim,
    ...against(PEER, OURS, RAW, 'http', at(platform, scenario), 'perSecond'),
  };
}

function against(
  other: string,
  ours: string,
  hand: string,
  part: string,
  factors: Factors,
  name: string,
): Pick<BudgetLine, 'measured' | 'byHand'> {
  return {
    measured: ratioOf(part, factors, ours, other, name),
    byHand: ratioOf(part, factors, hand, other, name),
  };
}

function at(platform: string, scenario: string): Factors {
  return { platform, scenario, connections: 64 };
}

function ratioOf(
  part: string,
  factors: Factors,
  numerator: string,
  denominator: string,
  name: string,
): Measured {
  return (results) => {
    const result = results.get(part);
    if (result === undefined) return undefined;
    const upper = metric(find(result, numerator, factors), name);
    const lower = metric(find(result, denominator, factors), name);
    if (upper === undefined || lower === undefined) return undefined;
    return pairedRatio(upper.rounds, lower.rounds);
  };
}
