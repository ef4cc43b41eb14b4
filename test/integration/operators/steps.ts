import type { OperatorAction } from 'nestjs-idempotency';
import { listsFromSeed } from '../../support/jest/random-runs.js';
import { Random } from '../differential/random.js';

export const ACTIONS = [
  'release',
  'complete',
  'reopen',
  'redact',
  'retain',
  'delete',
] as const satisfies readonly OperatorAction[];

/** Where an attempt is when an operator acts. */
export const INSTANTS = [
  'before begin',
  'begun without its reply',
  'before its effect',
  'after its effect',
  'its outcome is on the way',
  'its outcome is stored without the reply',
  'ended',
] as const;
export type Instant = (typeof INSTANTS)[number];

/** How the operation ends: with a value, or with an error that is stored, or that lets a retry run. */
export const ENDS = ['value', 'kept error', 'error'] as const;
export type End = (typeof ENDS)[number];

export type Step =
  /** Of the attempt: without this step, a value and no transaction. */
  | { readonly kind: 'owner'; readonly end: End; readonly isTransactional: boolean }
  /** The attempt goes on to its next instant. */
  | { readonly kind: 'go' }
  /** Time goes by: heartbeats are sent. */
  | { readonly kind: 'pass'; readonly ms: number }
  /** The same, while the attempt's process stands still. */
  | { readonly kind: 'pause'; readonly ms: number }
  | { readonly kind: 'look' }
  /** On what the operator has seen last. `races`: at the same time as the attempt goes on. */
  | {
      readonly kind: 'act';
      readonly action: OperatorAction;
      readonly isForced: boolean;
      readonly nothingHappened: boolean;
      readonly races: boolean;
    }
  | { readonly kind: 'retry' };

/** The lease of an attempt, 30 s by default; three heartbeats to a lease. */
const PASSES = [1, 9_999, 10_000, 15_000];
/** About the lease, and longer than any deadline. */
const PAUSES = [29_999, 30_000, 31_000, 400_000];

/** Random encounters of an attempt and an operator. */
export const encounters = (transactions: boolean) =>
  listsFromSeed((seed) => stepsOf(new Random(seed), transactions));

function stepsOf(random: Random, transactions: boolean): Step[] {
  const owner: Step = {
    kind: 'owner',
    end: random.pick(ENDS),
    isTransactional: transactions && random.chance(0.4),
  };
  const before = Array.from({ length: random.integer(0, 6) }, () => ({ kind: 'go' }) as const);
  const more = Array.from({ length: random.integer(2, 9) }, () => stepOf(random));
  return [owner, ...before, ...more];
}

function stepOf(random: Random): Step {
  const dice = random.fraction();
  if (dice < 0.2) return { kind: 'go' };
  if (dice < 0.3) return { kind: 'pass', ms: random.pick(PASSES) };
  if (dice < 0.4) return { kind: 'pause', ms: random.pick(PAUSES) };
  if (dice < 0.5) return { kind: 'look' };
  if (dice < 0.6) return { kind: 'retry' };
  return {
    kind: 'act',
    action: random.pick(ACTIONS),
    isForced: random.chance(0.6),
    nothingHappened: random.chance(0.3),
    races: random.chance(0.2),
  };
}

/**
 * Each action, forced and not, at each instant of an attempt that ends in each way: before its lease ends, with a retry or
 * without one, and after; then once more, on what the operator saw before the retry.
 */
export function eachEncounter(transactions: boolean): Step[][] {
  const owners = ENDS.flatMap((end) =>
    (transactions ? [false, true] : [false]).map((isTransactional): Step => {
      return { kind: 'owner', end, isTransactional };
    }),
  );
  const walks = INSTANTS.map((_, at) => Array.from({ length: at }, (): Step => ({ kind: 'go' })));
  const acts = ACTIONS.flatMap((action) =>
    [false, true].map((isForced): Step => {
      return { kind: 'act', action, isForced, nothingHappened: false, races: false };
    }),
  );
  const retry: Step = { kind: 'retry' };
  const pause: Step = { kind: 'pause', ms: 400_000 };
  return owners.flatMap((owner) =>
    walks.flatMap((walk) =>
      acts.flatMap((act) =>
        [[act], [act, retry], [pause, act, retry, act]].map((then) => [owner, ...walk, ...then]),
      ),
    ),
  );
}
