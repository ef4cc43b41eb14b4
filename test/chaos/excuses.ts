import { NOTHING_EXCUSED, type Expectations } from '../faults/lab/expectations.js';

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
    otherAnswers: [...new Set([...one.otherAnswers, ...other.otherAnswers])],
    maxBlockedMs: limits.length === 0 ? undefined : Math.max(...limits),
  };
}

function eitherWay(
  one: Expectations['extraExecutions'],
  other: Expectations['extraExecutions'],
): Expectations['extraExecutions'] {
  if (one === 'never' || one === other) return other;
  return other === 'never' ? one : 'told to either';
}
