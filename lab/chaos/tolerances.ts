import type { Fault } from './faults/fault.js';
import type { Plan } from './plan.js';
import { NOTHING_TOLERATED, type Expectations } from '../faults/expectations.js';

/** What a run may come to under its faults. */
export function expectationsOf(plan: Plan, faults: readonly Fault[]): Expectations {
  const tolerated = allTolerated(faults.map((fault) => fault.tolerates(plan)));
  return plan.transactional ? { ...tolerated, ...ALL_OR_NOTHING } : tolerated;
}

/** Where effect and record are one transaction, no fault allows any of this. */
const ALL_OR_NOTHING = {
  extraExecutions: 'never',
  differentSuccesses: false,
  lostOutcomes: false,
  outages: false,
} as const;

/** What several faults at a time allow: all that one of them allows. */
export function allTolerated(tolerances: readonly Partial<Expectations>[]): Expectations {
  return tolerances.reduce<Expectations>(both, NOTHING_TOLERATED);
}

function both(one: Expectations, more: Partial<Expectations>): Expectations {
  const other = { ...NOTHING_TOLERATED, ...more };
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
