import fc from 'fast-check';
import {
  INITIAL_STATE,
  type settle,
  type SettlementRules,
  type SettlementSignal,
} from '../../../support/internals/core.js';
import { settles } from './table.js';

const STATUSES = [201, 402, 503];
const status = fc.constantFrom(...STATUSES);
const stream = fc.integer({ min: 1, max: 2 });

const signal: fc.Arbitrary<SettlementSignal> = fc.oneof(
  fc.record({
    kind: fc.constantFrom(
      ...(['active', 'entered', 'threw', 'idle', 'streamStarted'] as const),
      ...(['sourceBroken', 'graceOver', 'notCalled'] as const),
    ),
  }) as fc.Arbitrary<SettlementSignal>,
  fc.record({
    kind: fc.constant('responseStarted' as const),
    sender: fc.constantFrom('handler' as const, 'around' as const, undefined),
  }),
  fc.record({ kind: fc.constant('returned' as const), goesOn: fc.boolean() }),
  fc.record({ kind: fc.constant('streamCompleted' as const), stream, status }),
  fc.record({
    kind: fc.constant('streamFailed' as const),
    stream,
    error: fc.constant('planned'),
    isRetryable: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('streamAbandoned' as const), stream }),
  fc.record({
    kind: fc.constantFrom('responseComplete' as const, 'overflow' as const),
    status,
  }),
  fc.record({ kind: fc.constant('clientGone' as const), hasBegun: fc.boolean() }),
);

/** The signals of a usual request, in their order. */
const usual = fc
  .tuple(fc.constantFrom('returned' as const, 'threw' as const), fc.boolean(), status, status)
  .map(([how, hasFailed, ofStream, ofWire]): SettlementSignal[] => [
    { kind: 'streamStarted' },
    { kind: 'entered' },
    ...(how === 'threw' ? ([{ kind: how }, { kind: 'idle' }] as const) : [{ kind: how }]),
    hasFailed
      ? { kind: 'streamFailed', stream: 1, error: 'planned', isRetryable: false }
      : { kind: 'streamCompleted', stream: 1, status: ofStream },
    { kind: 'responseStarted' },
    { kind: 'responseComplete', status: ofWire },
  ]);

/** Signals in any order, also in orders that no request has. Most of them contain a part of a usual request. */
export const orders = fc
  .tuple(usual, fc.array(fc.oneof(fc.constant(null), signal), { maxLength: 16 }))
  .map(([rest, mixed]) => mixed.flatMap((other) => (other === null ? rest.splice(0, 1) : [other])));

/** Signals after which every record is settled: the handler ends, and the client has left. */
function ending({ stream, hasEnded }: History): SettlementSignal[] {
  const failed = { kind: 'streamFailed', stream, error: 'planned', isRetryable: false } as const;
  return [
    ...(stream === 0 ? [{ kind: 'notCalled' } as const] : []),
    { kind: 'idle' },
    ...(hasEnded ? [] : [failed]),
    { kind: 'clientGone', hasBegun: true },
    { kind: 'graceOver' },
  ];
}

/** What has been signalled, as far as the promises speak of it. */
interface History {
  stream: number;
  isActive: boolean;
  isEntered: boolean;
  hasReturned: boolean;
  /** The status with which the stream that counts completed. */
  completed: number | undefined;
  hasEnded: boolean;
  /** The stream ended before the handler, or after a response. */
  isEarly: boolean;
  hasBegun: boolean;
  /** Part of a response has been sent. */
  hasPassed: boolean;
  /** The record will be released, as a response that is not kept was sent or no handler was called: what follows does not count. */
  isOver: boolean;
}

/** What `decide` breaks of the promises when it gets the signals, and then those of the end. */
export function brokenPromises(
  decide: typeof settle,
  rules: SettlementRules,
  signals: readonly SettlementSignal[],
): string[] {
  const broken: string[] = [];
  const past: History = {
    stream: 0,
    isActive: false,
    isEntered: false,
    hasReturned: false,
    completed: undefined,
    hasEnded: false,
    isEarly: false,
    hasBegun: false,
    hasPassed: false,
    isOver: false,
  };
  let state = INITIAL_STATE;
  let settlements = 0;
  /** A whole response waits for the end of its operation. */
  let isAwaiting = false;
  const send = (next: SettlementSignal) => {
    follow(past, next);
    const step = decide(state, next, rules);
    state = step.state;
    const { effect } = step;
    const isReleased = effect?.kind === 'release';
    if (isReleased && past.isActive) broken.push('released while the handler is running');
    if (isReleased && !rules.isTransactional && !rules.isNative && hasSucceeded(past)) {
      broken.push('released after a success');
    }
    if (effect?.kind === 'await') isAwaiting = true;
    if (effect?.kind === 'discard') isAwaiting = false;
    if (effect?.kind === 'complete' && past.isActive && !isResponse(next) && !isAwaiting) {
      broken.push('kept without a response while the handler is running');
    }
    if (effect?.kind === 'pass' && settlements === 0) {
      if (past.hasEnded && !past.isActive) broken.push('sent before it was stored');
      if (
        rules.isTransactional &&
        isOfHandler(next) &&
        !past.hasPassed &&
        state.phase !== 'releasing'
      ) {
        broken.push('sent before the commit');
      }
      past.hasBegun ||= !past.isOver && !past.hasEnded && next.kind === 'responseStarted';
      past.hasPassed ||= next.kind === 'responseStarted';
    }
    past.isOver ||= state.phase === 'releasing';
    if (effect?.kind === 'wait' && settlements > 0) broken.push('waits after the settlement');
    if (settles(effect)) settlements += 1;
    if (settlements > 1) broken.push('settled twice');
  };
  signals.forEach(send);
  ending(past).forEach(send);
  if (settlements === 0) broken.push('never settled');
  return broken;
}

/** Whether the operation has had its effect, and a retry would have it a second time. */
function hasSucceeded({ isEntered, hasReturned, isEarly, hasBegun, completed }: History): boolean {
  const isKept = completed !== undefined && completed < 500;
  return isEntered && hasReturned && (isKept || isEarly || hasBegun);
}

function isOfHandler(next: SettlementSignal): boolean {
  return next.kind === 'responseStarted' && next.sender === 'handler';
}

function isResponse(next: SettlementSignal): boolean {
  return next.kind === 'responseComplete' || next.kind === 'overflow';
}

function follow(past: History, next: SettlementSignal): void {
  switch (next.kind) {
    case 'active':
      past.isActive = true;
      break;
    case 'idle':
      past.isActive = false;
      break;
    case 'entered':
      past.isActive = true;
      past.isEntered ||= !past.isOver;
      break;
    case 'returned':
      past.isActive = next.goesOn === true;
      past.hasReturned ||= !past.isOver;
      break;
    case 'streamStarted':
      past.stream += 1;
      if (past.isOver) break;
      past.completed = undefined;
      past.hasEnded = false;
      past.isEarly = false;
      break;
    case 'streamCompleted':
    case 'streamFailed':
      if (past.isOver || next.stream !== past.stream) break;
      past.hasEnded = true;
      past.completed = next.kind === 'streamCompleted' ? next.status : undefined;
      past.isEarly = past.isActive && !(past.hasReturned && past.completed !== undefined);
      break;
    default:
  }
}
