import type { ExecutionContext } from '@nestjs/common';
import type { IdempotencyEngine } from '../../core/engine/idempotency-engine.js';
import {
  entryOf,
  OperationRun,
  replyOf,
  type Entry,
  type Reply,
} from '../../core/engine/run-operation.js';
import { executionScope } from '../../core/operation/execution-scope.js';
import type { IdempotencyContext } from '../../core/operation/idempotency-context.js';
import { asksToKeep, type OutcomeSummary } from '../../core/operation/outcome-policy.js';
import type { Services } from '../../core/operation/recovery.js';
import type { Outcome } from '../../core/record/record.js';
import type { GuardedSurrounding } from '../../core/telemetry/telemetries.js';
import type { Clock } from '../../core/util/clock.js';
import {
  hasCode,
  OperationRejectedError,
  ValueNotStorableError,
} from '../../core/errors/errors.js';
import type { OptionObserver } from '../../core/options/option-checks.js';
import { jitteredPause } from '../../core/util/time.js';
import type { Bypass, Call, CallResult } from './call.js';
import { replayStatus } from './call-outcome.js';
import { rejectedResult } from './rejection-errors.js';

type Operation = (context: IdempotencyContext) => unknown;

/** Protects operations that take and return values. */
export class CallTransport {
  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly services: Services,
  ) {}

  get clock(): Clock {
    return this.engine.clock;
  }

  /** Runs `operation`, or returns its stored result. Does not reject when the operation throws. */
  settle(call: Call, operation: Operation): Promise<CallResult> {
    const { around } = this.engine.telemetry;
    const surrounding = around?.({ operation: call.operation, transport: call.transport });
    return surrounding === undefined
      ? this.settleAfter(0, call, operation)
      : this.settleWithin(surrounding, call, operation);
  }

  private async settleWithin(
    surrounding: GuardedSurrounding,
    call: Call,
    operation: Operation,
  ): Promise<CallResult> {
    try {
      const result = await surrounding.run(() => this.settleAfter(0, call, operation));
      surrounding.ended(result.kind === 'value' ? undefined : result.error);
      return result;
    } catch (error) {
      surrounding.ended(error);
      throw error;
    }
  }

  /**
   * Waits for a call. Reports a request that is rejected before it becomes one.
   * @param misnamedIn - finds a key under a name that is not read. Called where there is none.
   */
  async prepared<Prepared, Route extends { readonly operation: string }>(
    transport: Call['transport'],
    call: Promise<Prepared>,
    misnamedIn: (context: ExecutionContext, route: Route) => string | undefined,
    context: ExecutionContext,
    route: Route,
  ): Promise<Prepared> {
    const { operation } = route;
    try {
      const prepared = await call;
      if (prepared === 'no_key') {
        this.reportMisnamedKey(operation, transport, misnamedIn(context, route));
      }
      return prepared;
    } catch (error) {
      this.reportInvalid(operation, transport, error);
      if (hasCode(error, 'idempotency_key_missing')) {
        this.reportMisnamedKey(operation, transport, misnamedIn(context, route));
      }
      throw error;
    }
  }

  /** Reports a request that was rejected before it became a call, if that is what `error` says. */
  reportInvalid(operation: string, transport: Call['transport'], error: unknown): void {
    this.engine.reportInvalid(operation, transport, error);
  }

  /** Reports an option that fails outside of an attempt. */
  observer(operation: string, transport: Call['transport']): OptionObserver {
    return {
      optionFailed: (option, error) => {
        this.engine.reportOption(operation, transport, option, error);
      },
    };
  }

  /** Reports an operation that starts to run without a call. */
  reportUnprotected(operation: string, transport: Call['transport'], reason: Bypass): void {
    this.engine.reportUnprotected(operation, transport, reason);
  }

  private reportMisnamedKey(
    operation: string,
    transport: Call['transport'],
    name: string | undefined,
  ): void {
    if (name !== undefined) this.engine.reportMisnamedKey(operation, transport, name);
  }

  /** @param conflicts - of earlier attempts with other transactions. */
  private async settleAfter(
    conflicts: number,
    call: Call,
    operation: Operation,
  ): Promise<CallResult> {
    const request = this.engine.requestOf(call);
    const decision = await this.engine.begin(request, replayStatus);
    const entry = entryOf(decision, request, this.services, call.handler, 'all');
    if (entry.kind !== 'run') return repliedResult(call, entry);
    const execution = new CallExecution(call, entry, conflicts);
    const result = await execution.run(operation);
    // The transaction was rolled back, and its attempt has ended: a commit cannot be repeated.
    const pauseMs = isConflict(result) ? execution.pauseAfterConflict() : undefined;
    if (pauseMs === undefined) return result;
    await jitteredPause(pauseMs, this.clock);
    return this.settleAfter(execution.conflicts, call, operation);
  }
}

/** @throws {@link OperationRejectedError} when there is no outcome, or else the operation's error. */
export function valueOf(result: CallResult): unknown {
  if (result.kind === 'value') return result.value;
  throw result.error;
}

/** A success without its value, as `outcome.keep` gets it. */
const SUCCESS: OutcomeSummary = {};

/** One attempt of a call. Its response is the outcome of its value or error, encoded if it is to be stored. */
class CallExecution extends OperationRun<() => Outcome> {
  readonly isNative = false;
  readonly successSummary = SUCCESS;

  constructor(
    private readonly call: Call,
    { attempt, scope }: Extract<Entry, { kind: 'run' }>,
    conflicts: number,
  ) {
    super(attempt, scope, call.options, conflicts);
  }

  override keeps(summary: OutcomeSummary): boolean {
    return asksToKeep(this.call.keep, summary, this);
  }

  async run(operation: Operation): Promise<CallResult> {
    for (;;) {
      const stream = this.streamStarted();
      let value: unknown;
      try {
        value = await executionScope.run(this.scope, () => this.invoke(operation));
      } catch (error) {
        const again = this.mayRunAgain(error);
        if (again !== false && (await again)) continue;
        return await this.failed(stream, error);
      }
      this.report({ kind: 'streamCompleted', stream });
      return await this.returned(value);
    }
  }

  protected override isResponse(): boolean {
    return false;
  }

  protected override outcomeOf(response: (() => Outcome) | undefined): Outcome {
    return response?.() ?? this.call.format.done;
  }

  private invoke(operation: Operation): unknown {
    const { scope, call } = this;
    // A handler reports its own entry.
    if (call.handler !== undefined) return operation(scope.context);
    return scope.start(async (found) => {
      scope.enter();
      try {
        const value = found === 'run' ? await operation(scope.context) : found.value;
        scope.leave('returned');
        return value;
      } catch (error) {
        scope.leave('threw');
        throw error;
      }
    });
  }

  private async returned(value: unknown): Promise<CallResult> {
    const { call, isTransactional } = this;
    const encoded = this.isKept ? call.format.encode(value) : undefined;
    const isUnstorable = encoded instanceof ValueNotStorableError;
    if (isUnstorable) this.report({ kind: 'sourceBroken' });
    const mayBeStored = encoded !== undefined && !isUnstorable && this.fits(encoded);
    const response = mayBeStored ? () => encoded : undefined;
    const reply = replyOf(await this.respond({ kind: 'responseComplete' }, response));
    if (reply !== undefined) return repliedResult(call, reply);
    if (encoded === undefined) return { kind: 'value', value, isReplayed: false };
    if (!isUnstorable) return decodedResult(call, encoded, false);
    return failure(isTransactional ? rolledBack(encoded) : encoded);
  }

  private async failed(stream: number, error: unknown): Promise<CallResult> {
    const { call } = this;
    const code = this.streamFailed(stream, error);
    const settlement = await this.respond({ kind: 'responseComplete' }, () =>
      call.format.encodeFailure(error, this),
    );
    if (code !== undefined) return rejectedResult(code, call.options);
    const reply = replyOf(settlement);
    return reply === undefined
      ? failure(error, settlement !== undefined)
      : repliedResult(call, reply);
  }

  private fits({ body }: Outcome): boolean {
    return this.call.options.outcome.storeBody && this.attempt.keepsBody(body.length);
  }
}

function rolledBack({ message, cause }: ValueNotStorableError): ValueNotStorableError {
  return new ValueNotStorableError(`The transaction was rolled back. ${message}`, { cause });
}

function isConflict(result: CallResult): boolean {
  return result.kind === 'rejected' && hasCode(result.error, 'idempotency_transaction_conflict');
}

/** The result of a caller who gets a stored outcome or a rejection. */
function repliedResult(call: Call, reply: Reply): CallResult {
  return reply.kind === 'stored'
    ? decodedResult(call, reply.outcome, true)
    : rejectedResult(reply.code, call.options);
}

/** The stored result, or a rejection where it cannot be decoded. */
function decodedResult({ format }: Call, outcome: Outcome, isReplayed: boolean): CallResult {
  try {
    const content = format.decode(outcome);
    return content.kind === 'value'
      ? { kind: 'value', value: content.value, isReplayed }
      : { kind: 'failure', error: content.error, isKept: true, isReplayed };
  } catch (error) {
    if (error instanceof OperationRejectedError) return { kind: 'rejected', error };
    throw error;
  }
}

function failure(error: unknown, isKept = false): CallResult {
  return { kind: 'failure', error, isKept, isReplayed: false };
}
