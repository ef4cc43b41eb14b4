import type { SettlementRules, SettlementSignal } from '../../../support/internals/core.js';

/** A policy that keeps successes; calls have no status. */
const ordinary: SettlementRules = {
  isNative: false,
  isTransactional: false,
  successSummary: {},
  keeps: (summary) => !('error' in summary),
};
const transactional: SettlementRules = { ...ordinary, isTransactional: true };
const keepsAll = { keeps: () => true };
const keepsNothing = { keeps: () => false };

const RUN = ['streamStarted', 'entered'];
const RETURN = [...RUN, 'returned'];
const THROW = [...RUN, 'threw', 'idle'];
const VALUE: readonly SettlementSignal[] = [
  { kind: 'streamCompleted', stream: 1 },
  { kind: 'responseComplete' },
];
const failed = (isRetryable = false): readonly SettlementSignal[] => [
  { kind: 'streamFailed', stream: 1, error: new Error('planned'), isRetryable },
  { kind: 'responseComplete' },
];

/** A call's signals, and the effects that they must have. */
export const CALLS: readonly (readonly [
  behaviour: string,
  rules: SettlementRules,
  signals: readonly (string | SettlementSignal)[],
  effects: readonly string[],
])[] = [
  ['keeps its value', ordinary, [...RETURN, ...VALUE], ['keep completed']],
  ['keeps it with its transaction', transactional, [...RETURN, ...VALUE], ['keep completed']],
  [
    'releases a value that the policy does not keep',
    { ...ordinary, ...keepsNothing },
    [...RETURN, ...VALUE],
    ['release'],
  ],
  [
    'commits a value that the policy does not keep',
    { ...transactional, ...keepsNothing },
    [...RETURN, ...VALUE],
    ['commit'],
  ],
  ['releases a failure', ordinary, [...THROW, ...failed()], ['release']],
  [
    'keeps a failure that the policy keeps',
    { ...ordinary, ...keepsAll },
    [...THROW, ...failed()],
    ['keep failed'],
  ],
  [
    'keeps a failure outside of its transaction',
    { ...transactional, ...keepsAll },
    [...THROW, ...failed()],
    ['keep failed, undone'],
  ],
  [
    'releases a conflict, whatever the policy',
    { ...transactional, ...keepsAll },
    [...THROW, ...failed(true)],
    ['release'],
  ],
  [
    'releases a failure before its operation',
    { ...ordinary, ...keepsAll },
    ['streamStarted', ...failed()],
    ['release'],
  ],
  [
    'rolls back an operation whose error was caught',
    transactional,
    [...THROW, ...VALUE],
    ['keep completed, undone'],
  ],
  [
    'keeps that it is done where the value cannot be stored',
    ordinary,
    [...RETURN, VALUE[0]!, 'sourceBroken', VALUE[1]!],
    ['keep completed without response'],
  ],
  [
    'rolls back where the value cannot be stored',
    transactional,
    [...RETURN, VALUE[0]!, 'sourceBroken', VALUE[1]!],
    ['release'],
  ],
  [
    'keeps the success of an operation that outlived its caller',
    ordinary,
    [...RUN, ...failed(), 'returned'],
    ['pass', 'keep completed without response'],
  ],
  [
    'releases such a success if the policy does not keep it',
    { ...ordinary, ...keepsNothing },
    [...RUN, ...failed(), 'returned'],
    ['pass', 'release'],
  ],
  [
    'releases the failure of an operation that outlived its caller',
    ordinary,
    [...RUN, ...failed(), 'threw', 'idle'],
    ['pass', 'release'],
  ],
  [
    'reports a success that is rolled back below the value of a timeout',
    transactional,
    [...RUN, ...VALUE, 'returned'],
    ['pass', 'release, undone'],
  ],
  [
    'does not report one that is rolled back below an error',
    transactional,
    [...RUN, ...failed(), 'returned'],
    ['pass', 'release'],
  ],
  [
    'does not take the value of a timeout for that of its operation',
    ordinary,
    [...RUN, ...VALUE, 'threw', 'idle'],
    ['pass', 'release'],
  ],
];
