import type { OutcomeSummary } from '../operation/outcome-policy.js';
import type { FinishedState } from '../record/record.js';

/** The wait for a response after the client has left and the handler ended: outer interceptors may still make one. */
export const NO_RESPONSE_GRACE_MS = 1_000;

/** The same for a native handler that has written nothing so far: it may respond from a callback. */
export const NO_NATIVE_RESPONSE_GRACE_MS = 5_000;

/** What does not change during an attempt. */
export interface SettlementRules {
  /** The handler sends the response itself. */
  readonly isNative: boolean;
  readonly isTransactional: boolean;
  /** A success without a response, as the policy gets it. */
  readonly successSummary: OutcomeSummary;
  /** The policy of the route or call. */
  keeps(summary: OutcomeSummary): boolean;
}

interface Completed {
  readonly kind: 'completed';
  readonly summary: OutcomeSummary;
  readonly isKept: boolean;
}

/** `isRetryable`: the transaction met a conflict or was interrupted. */
interface Failed {
  readonly kind: 'failed';
  readonly error: unknown;
  readonly isRetryable: boolean;
}

interface Facts {
  /** The number of the stream that counts: the signals of older ones are ignored. */
  readonly stream: number;
  /** The operation runs, or a wrapper around it, or the look-up before it. */
  readonly isActive: boolean;
  readonly isEntered: boolean;
  /** At least one call has returned. */
  readonly hasReturned: boolean;
  /** The last call threw, even if its caller caught the error. */
  readonly hasThrown: boolean;
  /** The source of the response failed, so the body is incomplete. */
  readonly isSourceBroken: boolean;
  /** Set after the client has left. */
  readonly graceMs: number | undefined;
  /** An ordinary handler has begun to send its response itself. */
  readonly isSender: boolean;
  /** The whole response that the operation has sent in its transaction, until it has ended. */
  readonly sent: Sent | undefined;
}

interface Sent {
  readonly status: number | undefined;
  readonly isResponseKept: boolean;
}

/**
 * What sends a response, by its async context: the operation's handler, with all that it calls, or an interceptor
 * around it. `undefined` for other code, and for a callback that has lost the context.
 */
export type ResponseSender = 'handler' | 'around' | undefined;

/**
 * - `waiting`: the handler's stream has not been subscribed to.
 * - `running`: the stream has not ended.
 * - `completed`, `failed`: it has, and the response to it is expected.
 * - `respondedEarly`: the response is not the handler's, or an interceptor stopped waiting for the handler.
 * - `releasing`: the response is not kept, and the handler is still running.
 */
export type SettlementState =
  | { readonly phase: 'waiting' | 'running' | 'releasing' | 'settled'; readonly facts: Facts }
  | { readonly phase: 'completed'; readonly end: Completed; readonly facts: Facts }
  | { readonly phase: 'failed'; readonly end: Failed; readonly facts: Facts }
  | {
      readonly phase: 'respondedEarly';
      /** Part of the response has been sent: another stream cannot respond any more. */
      readonly hasBegun: boolean;
      readonly end: Completed | Failed | undefined;
      readonly facts: Facts;
    };

/** Only HTTP's signals have a status. Elsewhere, the value or error is the response, complete at once. */
export type SettlementSignal =
  /** No handler was called, and none will be. */
  | { readonly kind: 'notCalled' }
  /** A stream starts, again if an outer interceptor retries or after a conflict. */
  | { readonly kind: 'streamStarted' }
  | { readonly kind: 'streamCompleted'; readonly stream: number; readonly status?: number }
  | {
      readonly kind: 'streamFailed';
      readonly stream: number;
      readonly error: unknown;
      readonly isRetryable: boolean;
    }
  /** An outer interceptor unsubscribed before the stream emitted. */
  | { readonly kind: 'streamAbandoned'; readonly stream: number }
  /** `active`: a wrapper or look-up starts before the operation. `idle`: the last of them and of its calls has ended. */
  | { readonly kind: 'active' | 'entered' | 'threw' | 'idle' }
  /** `goesOn`: a wrapper or another call is still running. */
  | { readonly kind: 'returned'; readonly goesOn?: boolean }
  /** `sender` is only asked for while the operation may be running. */
  | { readonly kind: 'responseStarted'; readonly sender?: ResponseSender }
  | { readonly kind: 'responseComplete'; readonly status?: number }
  /** The response is larger than the buffer. */
  | { readonly kind: 'overflow'; readonly status: number }
  | { readonly kind: 'sourceBroken' }
  /** `hasBegun`: part of the response was written, or the handler was never called. */
  | { readonly kind: 'clientGone'; readonly hasBegun: boolean }
  | { readonly kind: 'graceOver' };

/** The response waits for the result of `complete`, `commit` and `release`. */
export type SettlementEffect =
  | {
      readonly kind: 'complete';
      readonly state: FinishedState;
      readonly summary: OutcomeSummary;
      /** Otherwise it is replayed as "response not kept". */
      readonly isResponseKept: boolean;
      /** Whether to roll back the transaction, because the operation failed. */
      readonly undo: boolean;
      /** A success whose response is a failure. */
      readonly hasDiverged: boolean;
    }
  /** Commits the transaction, and frees the key. */
  | { readonly kind: 'commit' }
  /** `isUndone`: the client got a success, and the operation succeeded, but its transaction is rolled back. */
  | { readonly kind: 'release'; readonly isUndone?: boolean }
  /** Buffer the response. */
  | { readonly kind: 'hold' }
  /** Send the response. */
  | { readonly kind: 'pass' }
  /** Drop what the handler writes: the response of the interceptor that stopped waiting for it comes. */
  | { readonly kind: 'ignore' }
  /** Hold the whole response until the operation has ended, which settles it. */
  | { readonly kind: 'await' }
  /** Discard the held response, of which nothing has been sent: another one follows. */
  | { readonly kind: 'discard' }
  /** Signal `graceOver` after `ms`, in place of an earlier wait. */
  | { readonly kind: 'wait'; readonly ms: number };

export interface Step {
  readonly state: SettlementState;
  readonly effect?: SettlementEffect;
}

export const INITIAL_STATE: SettlementState = {
  phase: 'waiting',
  facts: {
    stream: 0,
    isActive: false,
    isEntered: false,
    hasReturned: false,
    hasThrown: false,
    isSourceBroken: false,
    graceMs: undefined,
    isSender: false,
    sent: undefined,
  },
};

const HOLD: SettlementEffect = { kind: 'hold' };
const PASS: SettlementEffect = { kind: 'pass' };
const IGNORE: SettlementEffect = { kind: 'ignore' };
const AWAIT: SettlementEffect = { kind: 'await' };
const DISCARD: SettlementEffect = { kind: 'discard' };

/**
 * How the record of an attempt is settled. The handler's stream shows whether the operation succeeded, the wire shows
 * what the client received, and both decide what is stored (protocol, rule 3; contract, "The response and its record").
 * Except on HTTP, there is no wire: the call's value or error is the response.
 *
 * | the response begins | and the handler | the record |
 * |---|---|---|
 * | after its stream completed with a kept status | was entered | is kept, whatever the wire's status |
 * | after its stream completed otherwise | | by the policy, from the wire's status |
 * | after its stream failed | was entered | by the policy, from the wire's status and the error |
 * | | was not entered | is released |
 * | in the handler itself, native or not | | by the policy, from the wire's status |
 * | elsewhere before its stream ended, or while the handler is still running | returns later, and the policy keeps successes | is kept as "response not kept" |
 * | | otherwise | is released |
 * | never, because the client has left | its stream completed with a kept status | is kept as "response not kept" |
 * | | its stream ended otherwise | is released |
 *
 * A record is released only after the handler has stopped running. A response whose source failed is not kept with its
 * record; nor is one that its handler had begun, or hijacked, when it threw.
 *
 * A response is the handler's own if it begins in the handler's async context, or in that of an interceptor around it
 * after the handler has ended.
 *
 * A transactional attempt is stricter, because a rolled-back operation can run again: it is also released if the policy
 * does not keep the wire's status, or if there is no complete response to keep. A success whose status is not kept is
 * still committed: its client must find what it wrote. After a conflict or an interruption, the record is released.
 * So it is after a response from elsewhere; a success that is rolled back below such a success is reported.
 * What the operation sends itself is held until it has ended. If it throws, that response is discarded, and the error's
 * takes its place.
 */
export function settle(
  state: SettlementState,
  signal: SettlementSignal,
  rules: SettlementRules,
): Step {
  const { facts } = state;
  switch (signal.kind) {
    case 'notCalled':
      return state.phase === 'waiting' ? idle({ phase: 'releasing', facts }, rules) : { state };
    case 'streamStarted':
      return streamStarted(state, rules);
    case 'streamCompleted': {
      if (signal.stream !== facts.stream) return { state };
      const summary = summaryOf(signal.status);
      const isKept = rules.keeps(summary);
      return streamEnded(state, { kind: 'completed', summary, isKept }, rules);
    }
    case 'streamFailed': {
      const { stream, error, isRetryable } = signal;
      if (stream !== facts.stream) return { state };
      return streamEnded(state, { kind: 'failed', error, isRetryable }, rules);
    }
    case 'streamAbandoned':
      if (state.phase !== 'running' || signal.stream !== facts.stream) return { state };
      // It has left the response to the handler.
      if (facts.isSender) return { state };
      return { state: { phase: 'respondedEarly', hasBegun: false, end: undefined, facts } };
    case 'active':
      return reported(state, { ...facts, isActive: true });
    case 'entered':
      return reported(state, { ...facts, isActive: true, isEntered: true, hasThrown: false });
    case 'returned': {
      const isActive = signal.goesOn === true;
      return idle(reported(state, { ...facts, isActive, hasReturned: true }).state, rules);
    }
    case 'threw':
      return discarding(reported(state, { ...facts, hasThrown: true }), rules);
    case 'idle':
      return idle(reported(state, { ...facts, isActive: false }).state, rules);
    case 'responseStarted':
      return responseStarted(state, signal.sender, rules);
    case 'responseComplete':
      return responseComplete(state, signal.status, !facts.isSourceBroken, rules);
    case 'overflow':
      return responseComplete(state, signal.status, false, rules);
    case 'sourceBroken':
      return reported(state, { ...facts, isSourceBroken: true });
    case 'clientGone': {
      const mayStillRespond = rules.isNative && !signal.hasBegun;
      const graceMs = mayStillRespond ? NO_NATIVE_RESPONSE_GRACE_MS : NO_RESPONSE_GRACE_MS;
      return awaitResponse(reported(state, { ...facts, graceMs }).state);
    }
    case 'graceOver':
      return graceOver(state, rules);
  }
}

function reported(state: SettlementState, facts: Facts): Step {
  return { state: { ...state, facts } };
}

function settled(facts: Facts, effect: SettlementEffect): Step {
  return { state: { phase: 'settled', facts }, effect };
}

/** Whether a response that begins is the operation's own, although its stream has not ended. */
function isOwn(sender: ResponseSender, { isActive, isEntered }: Facts): boolean {
  return sender === 'handler' || (sender === 'around' && isEntered && !isActive);
}

function isRunning({ phase }: SettlementState): boolean {
  return phase === 'waiting' || phase === 'running' || phase === 'respondedEarly';
}

/** After a failure. Nothing has left of what was sent in the transaction, so that another response can follow. */
function discarding(step: Step, { isTransactional }: SettlementRules): Step {
  const { state } = step;
  const { facts } = state;
  if (!isTransactional || !facts.isSender || !isRunning(state)) return step;
  const cleared = { ...facts, isSourceBroken: false, isSender: false, sent: undefined };
  return { state: { ...state, facts: cleared }, effect: DISCARD };
}

function streamStarted(state: SettlementState, rules: SettlementRules): Step {
  const discarded = discarding({ state }, rules);
  return { ...discarded, state: inNextStream(discarded.state) };
}

function inNextStream(state: SettlementState): SettlementState {
  const facts = { ...state.facts, stream: state.facts.stream + 1, isSourceBroken: false };
  switch (state.phase) {
    case 'releasing':
    case 'settled':
      return { phase: state.phase, facts };
    case 'respondedEarly':
      if (state.hasBegun) return { ...state, end: undefined, facts };
      break;
    default:
  }
  return { phase: 'running', facts };
}

function streamEnded(
  state: SettlementState,
  end: Completed | Failed,
  rules: SettlementRules,
): Step {
  const { phase } = state;
  if (phase === 'releasing' || phase === 'settled') return { state };
  const isResult = end.kind === 'completed' && state.facts.hasReturned;
  // An inner interceptor stopped waiting for a handler that is still running.
  const isEarly = phase === 'respondedEarly' || (state.facts.isActive && !isResult);
  const isUndone = isEarly || end.kind === 'failed';
  const step = isUndone ? discarding({ state }, rules) : { state };
  const { facts } = step.state;
  if (isEarly) {
    const hasBegun = phase === 'respondedEarly' && state.hasBegun;
    return { ...step, ...idle({ phase: 'respondedEarly', hasBegun, end, facts }, rules) };
  }
  if (end.kind === 'failed') return { ...step, ...awaitResponse({ phase: 'failed', end, facts }) };
  const { sent } = facts;
  const completed = { phase: 'completed', end, facts } as const;
  if (sent === undefined) return awaitResponse(completed);
  return responseComplete(completed, sent.status, sent.isResponseKept, rules);
}

/** Settles what has waited for the handler's end: there is no response of the handler to keep. */
function idle(state: SettlementState, rules: SettlementRules): Step {
  const { facts } = state;
  if (facts.isActive) return { state };
  if (state.phase === 'releasing') return settled(facts, { kind: 'release' });
  if (state.phase !== 'respondedEarly' || state.end === undefined) return { state };
  // Not by the stream's status: the early response has overwritten it.
  const isSuccess = facts.isEntered ? facts.hasReturned : state.end.kind === 'completed';
  const isKept = isSuccess && rules.keeps(rules.successSummary);
  const { end } = state;
  const hasSentSuccess = end.kind === 'completed' && !isFailureStatus(end.summary.status);
  if (rules.isTransactional && facts.hasReturned && hasSentSuccess) {
    return settled(facts, { kind: 'release', isUndone: true });
  }
  return withoutResponse(facts, end, isKept, rules);
}

/** Keeps a success without its response, because a retry would run the operation a second time. */
function withoutResponse(
  facts: Facts,
  end: Completed | Failed,
  isKept: boolean,
  { isTransactional, successSummary }: SettlementRules,
): Step {
  if (!isKept || isTransactional) return settled(facts, { kind: 'release' });
  return settled(facts, {
    kind: 'complete',
    state: 'completed',
    summary: end.kind === 'completed' ? end.summary : successSummary,
    isResponseKept: false,
    undo: false,
    hasDiverged: false,
  });
}

function awaitResponse(state: SettlementState): Step {
  const { graceMs } = state.facts;
  const isExpected = state.phase === 'completed' || state.phase === 'failed';
  if (!isExpected || graceMs === undefined) return { state };
  return { state, effect: { kind: 'wait', ms: graceMs } };
}

function graceOver(state: SettlementState, rules: SettlementRules): Step {
  if (state.phase !== 'completed' && state.phase !== 'failed') return { state };
  const { end, facts } = state;
  if (facts.isActive) return awaitResponse(state);
  return withoutResponse(facts, end, end.kind === 'completed' && end.isKept, rules);
}

function responseStarted(
  state: SettlementState,
  sender: ResponseSender,
  rules: SettlementRules,
): Step {
  const { phase, facts } = state;
  switch (phase) {
    case 'waiting':
    case 'running':
      if (rules.isNative || facts.isSender) return { state, effect: HOLD };
      if (isOwn(sender, facts)) return sending({ phase, facts });
      return {
        state: { phase: 'respondedEarly', hasBegun: true, end: undefined, facts },
        effect: PASS,
      };
    case 'completed':
    case 'failed':
      return { state, effect: HOLD };
    case 'respondedEarly':
      // The handler's own response goes on, or Nest ends it for an interceptor that gave up.
      if (facts.isSender) return { state, effect: HOLD };
      if (!state.hasBegun && sender === 'handler') {
        // An outer interceptor has stopped waiting, and left the response to the handler.
        if (state.end === undefined) return sending({ phase: 'running', facts });
        if (rules.isTransactional) return { state, effect: IGNORE };
      }
      return { state: { ...state, hasBegun: true }, effect: PASS };
    case 'releasing':
    case 'settled':
      return { state, effect: PASS };
  }
}

function sending({ phase, facts }: { phase: 'waiting' | 'running'; facts: Facts }): Step {
  return { state: { phase, facts: { ...facts, isSender: true } }, effect: HOLD };
}

function responseComplete(
  state: SettlementState,
  status: number | undefined,
  isResponseKept: boolean,
  rules: SettlementRules,
): Step {
  const { phase, facts } = state;
  const end = 'end' in state ? state.end : undefined;
  const isSender = rules.isNative || facts.isSender;
  const isOfHandler = isSender || phase === 'completed' || phase === 'failed';
  if (!isOfHandler || phase === 'releasing' || phase === 'settled') return { state, effect: PASS };
  if (rules.isTransactional && isRunning(state)) {
    const sent = { status, isResponseKept };
    return { state: { ...state, facts: { ...facts, sent } }, effect: AWAIT };
  }
  const summary = summaryOf(status, end);
  const isFailure = isFailureStatus(status) || (status === undefined && end?.kind === 'failed');
  const hasFailed =
    end?.kind !== 'completed' ||
    facts.hasThrown ||
    (isFailure && !isFailureStatus(end.summary.status));
  const kept = (hasDiverged = false) =>
    settled(facts, {
      kind: 'complete',
      state: isFailure ? 'failed' : 'completed',
      summary,
      isResponseKept,
      undo: rules.isTransactional && hasFailed,
      hasDiverged,
    });
  if (end?.kind === 'failed') {
    // Pipes and inner interceptors fail like a handler, but the operation has not started (C88).
    const mayBeKept = facts.isEntered && !end.isRetryable;
    if (mayBeKept && rules.keeps(summary)) return kept();
    // An interceptor gave up on an ordinary handler that has returned since.
    const isLate = phase === 'respondedEarly' && !rules.isNative;
    const hasSucceeded = isLate && facts.isEntered && facts.hasReturned;
    return hasSucceeded && rules.keeps(rules.successSummary) ? kept(true) : releaseOnceIdle(facts);
  }
  const isKept = rules.keeps(summary);
  if (rules.isTransactional) {
    if (isKept && !facts.isSourceBroken) return kept();
    const isCommitted = !isFailure && !hasFailed && !facts.isSourceBroken;
    return isCommitted ? settled(facts, { kind: 'commit' }) : releaseOnceIdle(facts);
  }
  const isSuccess = !rules.isNative && facts.isEntered && end?.isKept === true;
  return isKept || isSuccess ? kept(!isKept) : releaseOnceIdle(facts);
}

/** The response waits for the release, so that an immediate retry finds the key free, but not for the handler. */
function releaseOnceIdle(facts: Facts): Step {
  if (facts.isActive) return { state: { phase: 'releasing', facts }, effect: PASS };
  return settled(facts, { kind: 'release' });
}

function summaryOf(status: number | undefined, end?: Completed | Failed): OutcomeSummary {
  if (end?.kind !== 'failed') return status === undefined ? {} : { status };
  const { error } = end;
  return status === undefined ? { error } : { status, error };
}

function isFailureStatus(status: number | undefined): boolean {
  return status !== undefined && status >= 400;
}
