import type { Fault } from './faults/fault.js';
import type { Plan } from './plan.js';
import { NOTHING_EXCUSED, type Expectations } from '../faults/expectations.js';

/** What a run may come to under its faults. */
export function expectationsOf(plan: Plan, faults: readonly Fault[]): Expectations {
  const excused = allExcuses(faults.map((fault) => fault.excuses(plan)));
  return plan.transactional ? { ...excused, ...ALL_OR_NOTHING } : excused;
}

/** Where effect and record are one transaction, no fault whatsoever excuses any of this. */
const ALL_OR_NOTHING = {
  extraExecutions: 'never',
  differentSuccesses: false,
  lostOutcomes: false,
  outages: false,
} as const;

/** What several faults at a time excuse: whatever one of them does. */
export function allExcuses(excuses: readonly Partial<Expectations>[]): Expectations {
  return excuses.reduce<Expectations>(both, NOTHING_EXCUSED);
}

function both(one: Expectations, more: Partial<Expectations>): Expectations {
  const other = { ...NOTHING_EXCUSED, ...more };
  const limits = [one.maxBlockedMs, other.maxBlockedMs].filter((limit) => limit !== undefined);
  return {
    extraExecutions: eitherWay(one.extraExecutions, other.extraExecutions),
    differentSuccesses: one.differentSuccesses || other.differentSuccesses,
    lostOutcomes: one.lostOutcomes || other.lostOutcomes,
    outages: one.outages || other.outages,
    brokenConnections: one.brokenConnections || other.brokenConnections,
    otherResponses: [...new Set([...one.otherResponses, ...other.otherResponses])],
    maxBlockedMs: limits.length === 0 ? undefined : Math.max(...limits),
  };
}

function eitherWay(
  one: Expectations['extraExecutions'],
  other: Expectations['extraExecutions'],
): Expectations['extraExecutions'] {
  if (one === 'never' || one === other) return other;
  return other === 'never' ? one : 'reported to either';
}
