import {
  REJECTION_CODES,
  type Attempt,
  type BodySpool,
  type FinalOutcome,
  type Settlement,
} from '../operation/attempt.js';
import { ExecutionScope, recoveryOf, senderIn } from '../operation/execution-scope.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { finishedRetentionMs, type ResolvedProtocolOptions } from '../operation/options.js';
import type { OutcomeSummary } from '../operation/outcome-policy.js';
import type { OptionObserver } from '../options/option-checks.js';
import type { Services } from '../operation/recovery.js';
import type { FinishedState, Outcome, ReadableOutcome } from '../record/record.js';
import type { ClockTimer } from '../util/clock.js';
import type { RejectionCode } from '../errors/rejections.js';
import type { Decision } from './begin-protocol.js';
import {
  INITIAL_STATE,
  settle,
  type ResponseSender,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
} from './settlement.js';

/** Doubled before each run after a conflict, including the first: 20 ms, 40 ms, … */
const CONFLICT_PAUSE_MS = 10;

const RESPONSE_STARTED: SettlementSignal = { kind: 'responseStarted' };

/** A whole response, which waits for the end of its operation. */
interface AwaitingResponse<Response> {
  readonly response: Response | undefined;
  readonly resolve: (settling: Promise<Settlement | undefined> | undefined) => void;
}

/** What a caller gets in place of its own operation's result. */
export type Reply =
  | { readonly kind: 'stored'; readonly outcome: ReadableOutcome }
  | { readonly kind: 'rejected'; readonly code: RejectionCode };

/** What happens with a request. */
export type Entry =
  { readonly kind: 'run'; readonly attempt: Attempt; readonly scope: ExecutionScope } | Reply;

/** How a request goes on after the engine's decision. The look-up by `lease.onTakeover` is part of the scope. */
export function entryOf(
  decision: Decision,
  request: OperationRequest,
  services: Services,
  handler?: object,
  emissions?: ExecutionScope['emissions'],
): Entry {
  switch (decision.kind) {
    case 'run': {
      const { attempt } = decision;
      const scope = new ExecutionScope(request, attempt, handler, emissions);
      const { onTakeover, recoverOn } = request.options.lease;
      if (typeof onTakeover === 'function' && (attempt.isTakeover || recoverOn === 'always')) {
        scope.recover = recoveryOf(onTakeover, attempt, scope.context, services);
      }
      return { kind: 'run', attempt, scope };
    }
    case 'replay':
      return { kind: 'stored', outcome: decision.outcome };
    case 'reject':
      return { kind: 'rejected', code: REJECTION_CODES[decision.reason] };
  }
}

/** What replaces the result of an operation whose outcome was sent to the store; `undefined` if nothing does. */
export function replyOf(settlement: Settlement | undefined): Reply | undefined {
  if (settlement === undefined) return undefined;
  switch (settlement.kind) {
    case 'own':
      return undefined;
    case 'other':
      return { kind: 'stored', outcome: settlement.outcome };
    default:
      return { kind: 'rejected', code: REJECTION_CODES[settlement.kind] };
  }
}

/**
 * One attempt to run an operation, from its start until its outcome is settled. It reports to {@link settle} what the
 * operation, its stream and the response do, and executes what the function decides. A transport extends it by what an
 * outcome is.
 */
export abstract class OperationRun<Response> implements SettlementRules, OptionObserver {
  abstract readonly isNative: boolean;
  abstract readonly successSummary: OutcomeSummary;
  readonly isTransactional: boolean;
  private state = INITIAL_STATE;
  private grace: ClockTimer | undefined;
  private awaiting: AwaitingResponse<Response> | undefined;
  private startingOver: Promise<boolean> | undefined;
  private failedOption: string | undefined;
  /** Of the response that is complete, if its body was streamed. */
  protected spooled: BodySpool | undefined;

  constructor(
    protected readonly attempt: Attempt,
    readonly scope: ExecutionScope,
    private readonly options: ResolvedProtocolOptions,
    /** With other transactions, those of earlier attempts included. */
    public conflicts = 0,
  ) {
    this.isTransactional = attempt.transaction !== undefined;
    scope.listener = this;
  }

  abstract keeps(summary: OutcomeSummary): boolean;

  /** The outcome to store; without a response, that of a success whose response is not kept. */
  protected abstract outcomeOf(response: Response | undefined): Outcome;

  /** Whether an error is the application's own response, even if it was caused by a conflict. */
  protected abstract isResponse(error: unknown): boolean;

  get isStarted(): boolean {
    return this.state.facts.stream > 0;
  }

  /** Whether the key is no longer held: the operation must not run again. */
  get isSettled(): boolean {
    return this.state.phase === 'settled';
  }

  /** Whether the operation has succeeded, and its policy keeps the success. */
  protected get isKept(): boolean {
    return this.state.phase === 'completed' && this.state.end.isKept;
  }

  /** A stream starts, again if an outer interceptor retries. @returns its number: signals of older ones are ignored. */
  streamStarted(): number {
    if (!this.attempt.isProtected) this.attempt.startedUnprotected();
    this.report({ kind: 'streamStarted' });
    return this.state.facts.stream;
  }

  /** @returns the rejection that replaces an error of the transaction. */
  streamFailed(stream: number, error: unknown): RejectionCode | undefined {
    const code = this.transactionFailure(error);
    this.report({ kind: 'streamFailed', stream, error, isRetryable: code !== undefined });
    return code;
  }

  /** Whether the operation may run again, because `error` is a conflict with another transaction. */
  mayRunAgain(error: unknown): false | Promise<boolean> {
    if (!this.isConflict(error)) return false;
    this.attempt.transaction?.conflicted();
    // An inner interceptor may have thrown: what the handler has sent is not the next run's response.
    if (this.isSender) this.report({ kind: 'threw' });
    const pauseMs = this.pauseAfterConflict();
    return pauseMs === undefined ? false : this.startOver(pauseMs);
  }

  /** Counts a conflict. @returns the pause in milliseconds before the next run; `undefined` if there is none. */
  pauseAfterConflict(): number | undefined {
    const { transaction } = this.options;
    if (transaction === false || this.conflicts >= transaction.conflictRetries) return undefined;
    this.conflicts += 1;
    return CONFLICT_PAUSE_MS * 2 ** this.conflicts;
  }

  /**
   * Replaces the operation's transaction; the last one's writes are rolled back. An outer interceptor that retries
   * meanwhile gets the same replacement. @returns whether it may run.
   */
  startOver(pauseMs = 0): Promise<boolean> {
    this.startingOver ??= this.replaceTransaction(pauseMs).finally(() => {
      this.startingOver = undefined;
    });
    return this.startingOver;
  }

  private async replaceTransaction(pauseMs: number): Promise<boolean> {
    if (!this.mayStartOver()) return false;
    const { transaction } = this.attempt;
    if ((await transaction?.restart(pauseMs)) !== true) return false;
    this.scope.startOver();
    if (this.mayStartOver()) return true;
    // An outer interceptor has responded meanwhile: the release of the record waits for the new transaction.
    transaction?.giveUp();
    return false;
  }

  /** A method, because the compiler does not expect an await to change a property. */
  private mayStartOver(): boolean {
    const { state } = this;
    const hasResponse = state.phase === 'respondedEarly' && state.hasBegun;
    return !state.facts.isActive && !hasResponse && !this.isSettled;
  }

  /** Reports it once: a policy may be asked twice for an attempt. */
  optionFailed(option: string, error: unknown): void {
    if (this.failedOption === option) return;
    this.failedOption = option;
    this.attempt.optionFailed(option, error);
  }

  /** Signals what no response waits for. */
  report(signal: SettlementSignal): void {
    void this.respond(signal);
  }

  /**
   * A response starts, or a held one continues. `pass`: it is not the operation's own. `ignore`: another one follows.
   */
  protected responseStarted(status: number): 'hold' | 'pass' | 'ignore' {
    const effect = this.signal(
      this.isExpected
        ? RESPONSE_STARTED
        : { kind: 'responseStarted', sender: this.senderOf(status) },
    );
    return effect?.kind === 'hold' || effect?.kind === 'ignore' ? effect.kind : 'pass';
  }

  /** Whether an ordinary handler sends its response itself. */
  protected get isSender(): boolean {
    return this.state.facts.isSender;
  }

  /** Whether the stream has begun, and neither ended nor been left. */
  protected get isStreaming(): boolean {
    return this.state.phase === 'running';
  }

  /** What sends a response with this status now. */
  protected senderOf(_status: number): ResponseSender {
    return senderIn(this.scope);
  }

  /** Whether the operation's end is what a whole response of its own waits for. */
  get isAwaitingHandler(): boolean {
    return this.isTransactional && !this.isExpected && !this.isSettled;
  }

  /** Discards a held response, of which nothing has been sent. Only a transactional operation's waits for it. */
  protected discardResponse(): void {
    this.awaiting = undefined;
  }

  /** Whether the stream has ended, and the response to it is expected. */
  private get isExpected(): boolean {
    return this.state.phase === 'completed' || this.state.phase === 'failed';
  }

  /** @returns when the response may be sent; `undefined` if it need not wait. */
  protected respond(
    signal: SettlementSignal,
    response?: Response,
  ): Promise<Settlement | undefined> | undefined {
    const effect = this.signal(signal);
    return effect && this.execute(effect, response);
  }

  private signal(signal: SettlementSignal): SettlementEffect | undefined {
    const { state, effect } = settle(this.state, signal, this);
    this.state = state;
    return effect;
  }

  private execute(
    effect: SettlementEffect,
    response = this.awaiting?.response,
  ): Promise<Settlement | undefined> | undefined {
    switch (effect.kind) {
      case 'complete':
        if (effect.hasDiverged) this.attempt.responseDiverged();
        return this.settling(this.attempt.complete(this.finalOutcome(effect, response)));
      case 'commit':
        return this.settling(this.attempt.transaction?.commitUnkept());
      case 'release':
        if (effect.isUndone === true) this.attempt.transaction?.undone();
        return this.settling(this.attempt.release().then(() => undefined));
      case 'await':
        return this.awaitEnd(response);
      case 'discard':
        this.discardResponse();
        return undefined;
      case 'wait':
        this.endGrace();
        this.grace = this.attempt.clock.setTimeout(graceOver, effect.ms, this);
        this.grace.unref();
        return undefined;
      default:
        return undefined;
    }
  }

  /** Not in {@link execute}: a closure there costs each signal of each request a context. */
  private awaitEnd(response: Response | undefined): Promise<Settlement | undefined> {
    return new Promise((resolve) => {
      this.awaiting = { response, resolve };
    });
  }

  private settling<End extends Promise<Settlement | undefined> | undefined>(end: End): End {
    this.endGrace();
    this.awaiting?.resolve(end);
    this.awaiting = undefined;
    return end;
  }

  private endGrace(): void {
    if (this.grace !== undefined) this.attempt.clock.clearTimeout(this.grace);
  }

  private finalOutcome(
    effect: Extract<SettlementEffect, { kind: 'complete' }>,
    response: Response | undefined,
  ): FinalOutcome {
    const { state, summary, isResponseKept, undo } = effect;
    const outcome = this.outcomeOf(isResponseKept ? response : undefined);
    const retentionMs = this.retentionOf(summary, state);
    return { state, outcome, retentionMs, undo, spool: isResponseKept ? this.spooled : undefined };
  }

  private retentionOf(summary: OutcomeSummary, state: FinishedState): number {
    return finishedRetentionMs(this.options, { ...summary, state }, this);
  }

  /**
   * Starts to put the body of a held response into the blob store, while it is written. Not for an outcome that would not
   * be kept: its bytes would be gone.
   */
  protected startSpool(beginning: Uint8Array, status: number): BodySpool | undefined {
    const summary = { status };
    if (this.isSettled || !this.keeps(summary)) return undefined;
    const isSuccess = status < 400;
    const retentionMs = this.retentionOf(summary, isSuccess ? 'completed' : 'failed');
    const { phase, facts } = this.state;
    const willCommit = isSuccess && phase === 'completed' && !facts.hasThrown;
    return this.attempt.spool(beginning, retentionMs, willCommit);
  }

  private transactionFailure(error: unknown): RejectionCode | undefined {
    if (this.isConflict(error)) return 'idempotency_transaction_conflict';
    const { transaction } = this.attempt;
    if (transaction === undefined || this.isResponse(error)) return undefined;
    return transaction.isInterruption(error) ? 'idempotency_store_unavailable' : undefined;
  }

  private isConflict(error: unknown): boolean {
    const { transaction } = this.attempt;
    return transaction !== undefined && !this.isResponse(error) && transaction.isConflict(error);
  }
}

function graceOver(run: OperationRun<unknown>): void {
  run.report({ kind: 'graceOver' });
}
