import type { Row } from '../../../test/support/docs/figures/report.js';
import type { Factors, Measurement } from '../measuring/interleave.js';
import { pairedRatio, type Ratio } from '../measuring/statistics.js';
import { BARE_CIPHERS } from '../parts/sealing.js';
import { find, metric, type Results } from './result.js';

/** What has to hold, and what would be better. */
export interface BudgetLine {
  readonly what: string;
  readonly limit: keyof typeof REACHES;
  readonly must: number;
  readonly aim?: number;
  /** `undefined` where it has not been measured. */
  readonly measured: (results: Results) => Measured | undefined;
}

const REACHES = {
  'at least': (value: number, bound: number) => value >= bound,
  'at most': (value: number, bound: number) => value <= bound,
  exactly: (value: number, bound: number) => value === bound,
};

interface Measured extends Ratio {
  /** The entrant that it is a ratio to, where that is the best of several. */
  readonly beside?: string;
}

type Verdict = 'held' | 'missed';

export interface Judged {
  readonly line: BudgetLine;
  readonly measured: Measured;
  readonly must: Verdict;
  readonly aim?: Verdict | undefined;
}

const STORE = 'nestjs-idempotency';
export const OURS = 'nestjs-idempotency, Redis';
export const BARE = 'bare route';
const EMPTY = 'empty interceptor';
/** The fewest commands: in an interceptor on ioredis, and by themselves. */
export const BY_HAND = 'SET NX GET + SET XX';
const IN_SCRIPTS = 'the same in scripts';
export const PEERS: readonly string[] = [
  '@node-idempotency/nestjs',
  '@aws-lambda-powertools/idempotency',
  'express-idempotency',
];

const PAIR = { task: 'pair', via: 'TCP', pipelining: 'on', bytes: 200, inFlight: 32 };
const LARGE = { ...PAIR, bytes: 65_536 };

/** A ratio reaches a bound by its median; its interval is printed and decides nothing. */
export const BUDGET: readonly BudgetLine[] = [
  rate('replay', 'fastify', 64, 1, 1.15),
  rate('replay', 'express', 64, 1, 1.1),
  rate('first', 'fastify', 64, 0.85, 1),
  rate('first', 'express', 64, 0.75, 0.95),
  cost('first', 'fastify', 1.2, 1),
  cost('first', 'express', 1.2, 1),
  cost('replay', 'fastify', 1, 0.9),
  cost('replay', 'express', 1, 0.9),
  {
    what: 'first, CPU above the empty interceptor ÷ that of by hand, Fastify, one connection',
    ...atMost(1.6, 1.2),
    measured: aboveEmpty,
  },
  rate('first', 'fastify', 1, 0.8, 1),
  rate('replay', 'fastify', 1, 1, 1.1),
  {
    what: 'Redis CPU of a pair ÷ scripts of one line',
    ...atMost(1.75, 1.3),
    measured: ratioOf('store', PAIR, STORE, IN_SCRIPTS, 'redisUs'),
  },
  {
    what: 'outcome of 64 KB, Redis CPU of a pair ÷ raw',
    ...atMost(1.5, 1.2),
    measured: ratioOf('store', LARGE, STORE, BY_HAND, 'redisUs'),
  },
  {
    what: 'outcome of 64 KB, Redis CPU of a replay ÷ raw',
    ...atMost(1.8, 1.4),
    measured: ratioOf('store', { ...LARGE, task: 'replay' }, STORE, BY_HAND, 'redisUs'),
  },
  {
    what: 'outcome of 1 KB, CPU of encrypting and reading it ÷ bare ciphers',
    ...atMost(1.5, 1.2),
    measured: ratioOf('sealing', { bytes: 1_024 }, STORE, BARE_CIPHERS, 'cpuUs'),
  },
  byClient('node-redis'),
  byClient('GLIDE'),
  commands('first', 2),
  commands('replay', 1),
  commands('conflict', 1),
  commands('mismatch', 1),
  {
    what: 'bytes of a record: key 59 B, body 200 B, headers 68 B',
    ...atMost(552, 488),
    measured: exactly({ outcomeBytes: 'budget' }, 'bytes'),
  },
];

/** All lines that the results have something to say to. */
export function judge(results: Results): Judged[] {
  return BUDGET.flatMap((line): Judged[] => {
    const measured = line.measured(results);
    if (measured === undefined) return [];
    const verdict = (bound: number): Verdict =>
      REACHES[line.limit](measured.estimate, bound) ? 'held' : 'missed';
    const aim = line.aim === undefined ? undefined : verdict(line.aim);
    return [{ line, measured, must: verdict(line.must), aim }];
  });
}

export function budgetRows(results: Results): Row[] {
  return judge(results).map(({ line, measured, must, aim }) => ({
    what: line.what,
    beside: measured.beside ?? '–',
    measured: inDigits(measured.estimate),
    '95 % interval': measured.low === measured.high ? 'exact' : intervalOf(measured),
    must: `${line.limit} ${line.must}: ${must}`,
    aim: aim === undefined ? '–' : `${line.aim!}: ${aim}`,
  }));
}

export function intervalOf({ low, high }: Ratio): string {
  return `${inDigits(low)} to ${inDigits(high)}`;
}

export function inDigits(value: number): string {
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(2);
}

function atMost(must: number, aim: number): Pick<BudgetLine, 'limit' | 'must' | 'aim'> {
  return { limit: 'at most', must, aim };
}

function rate(
  scenario: string,
  platform: string,
  connections: number,
  must: number,
  aim: number,
): BudgetLine {
  const where = connections === 1 ? ', one connection' : '';
  return {
    what: `${scenario}, requests/s ÷ best peer, ${titleOf(platform)}${where}`,
    limit: 'at least',
    must,
    aim,
    measured: againstBest(
      { platform, scenario, connections },
      'perSecond',
      (one, other) => one > other,
    ),
  };
}

function cost(scenario: string, platform: string, must: number, aim: number): BudgetLine {
  return {
    what: `${scenario}, CPU ÷ best peer, ${titleOf(platform)}`,
    ...atMost(must, aim),
    measured: againstBest(
      { platform, scenario, connections: 64 },
      'cpuUs',
      (one, other) => one < other,
    ),
  };
}

function byClient(client: string): BudgetLine {
  return {
    what: `pair by ${client}, pairs/s ÷ the same client and scripts by hand`,
    limit: 'at least',
    must: 0.9,
    measured: ratioOf('clients', PAIR, `by ${client}`, `${client} by hand`, 'perSecond'),
  };
}

function commands(scenario: string, must: number): BudgetLine {
  return {
    what: `commands of a ${scenario === 'first' ? 'first request' : scenario}`,
    limit: 'exactly',
    must,
    measured: exactly({ scenario }, 'commands'),
  };
}

function titleOf(platform: string): string {
  return platform === 'express' ? 'Express' : 'Fastify';
}

/** Ours ÷ the peer whose median is the best of those that were measured under these conditions. */
function againstBest(
  factors: Factors,
  name: string,
  isBetter: (one: number, other: number) => boolean,
): BudgetLine['measured'] {
  return (results) => {
    const result = results.get('http');
    const peers = PEERS.flatMap((peer) => (result && find(result, peer, factors)) ?? []);
    let best: Measurement | undefined;
    for (const peer of peers) {
      if (best === undefined || isBetter(medianOf(peer, name), medianOf(best, name))) best = peer;
    }
    if (best === undefined) return undefined;
    const ratio = ratioOf('http', factors, OURS, best.entrant, name)(results);
    return ratio && { ...ratio, beside: best.entrant };
  };
}

function medianOf(measurement: Measurement, name: string): number {
  return metric(measurement, name)?.median ?? NaN;
}

/**
 * Over one connection: with many, an application that waits for Redis responds in bursts, and may take less CPU than one
 * that waits for nothing.
 */
function aboveEmpty(results: Results): Measured | undefined {
  const result = results.get('http');
  const factors = { platform: 'fastify', scenario: 'first', connections: 1 };
  const [empty, ours, byHand] = [EMPTY, OURS, BY_HAND].map(
    (name) => result && metric(find(result, name, factors), 'cpuUs')?.rounds,
  );
  if (empty === undefined || ours === undefined || byHand === undefined) return undefined;
  const above = (rounds: readonly (number | null)[]) =>
    rounds.map((value, round) => {
      const other = empty[round] ?? null;
      return value === null || other === null ? null : value - other;
    });
  return pairedRatio(above(ours), above(byHand));
}

function ratioOf(
  part: string,
  factors: Factors,
  numerator: string,
  denominator: string,
  name: string,
): BudgetLine['measured'] {
  return (results) => {
    const result = results.get(part);
    if (result === undefined) return undefined;
    const upper = metric(find(result, numerator, factors), name);
    const lower = metric(find(result, denominator, factors), name);
    if (upper === undefined || lower === undefined) return undefined;
    return pairedRatio(upper.rounds, lower.rounds);
  };
}

/** What every run counts alike. */
function exactly(factors: Factors, name: string): BudgetLine['measured'] {
  return (results) => {
    const result = results.get('counts');
    const value = result && metric(find(result, OURS, factors), name)?.median;
    return value === undefined ? undefined : { estimate: value, low: value, high: value };
  };
}
