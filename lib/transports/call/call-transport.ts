import type { IdempotencyEngine } from '../../core/engine/idempotency-engine.js';
import { REJECTION_CODES, type Attempt, type Settlement } from '../../core/operation/attempt.js';
import { contextOf, ExecutionScope, executionScope } from '../../core/operation/execution-scope.js';
import type { IdempotencyContext } from '../../core/operation/idempotency-context.js';
import type { OperationRequest } from '../../core/operation/operation-request.js';
import { finishedRetentionMs } from '../../core/operation/options.js';
import { asksToKeep, keepSuccesses } from '../../core/operation/outcome-policy.js';
import { recoveryOf, type Recovery, type Services } from '../../core/operation/recovery.js';
import type { FinishedState, Outcome } from '../../core/record/record.js';
import { recordKey } from '../../core/record/record-key.js';
import { hasCode, OperationRejectedError, ValueNotStorableError } from '../../core/util/errors.js';
import { jitteredPause } from '../../core/util/time.js';
import type { Call, CallResult } from './call.js';
import { VALUE_NOT_KEPT } from './call-outcome.js';
import { rejectedResult } from './rejection-errors.js';

/** The pause after a transaction's first conflict, doubled after each further one. */
const CONFLICT_PAUSE_MS = 20;

type Operation = (context: IdempotencyContext) => unknown;

/** Protects operations that take and return values. */
export class CallTransport {
  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly services: Services,
  ) {}

  /** Runs `operation`, or returns its stored result. Does not reject when the operation throws. */
  async settle(call: Call, operation: Operation): Promise<CallResult> {
    for (let conflicts = 0; ; conflicts += 1) {
      const result = await this.settleOnce(call, operation);
      const { transaction } = call.options;
      const isConflict =
        transaction !== false &&
        result.kind === 'rejected' &&
        hasCode(result.error, 'idempotency_transaction_conflict');
      if (!isConflict || conflicts >= transaction.conflictRetries) return result;
      await jitteredPause(CONFLICT_PAUSE_MS * 2 ** conflicts);
    }
  }

  private async settleOnce(call: Call, operation: Operation): Promise<CallResult> {
    const operationRequest = operationRequestOf(call);
    const decision = await this.engine.begin(operationRequest);
    switch (decision.kind) {
      case 'run':
        return this.execute(call, operationRequest, decision.attempt, operation);
      case 'replay':
        return decodedResult(call, decision.outcome, true);
      case 'reject':
        return rejectedResult(REJECTION_CODES[decision.reason], call.options);
    }
  }

  private async execute(
    call: Call,
    operationRequest: OperationRequest,
    attempt: Attempt,
    operation: Operation,
  ): Promise<CallResult> {
    const context = contextOf(operationRequest, attempt);
    const recover = recoveryOf(
      operationRequest.options.lease.onTakeover,
      attempt,
      context,
      this.services,
    );
    const { transaction } = attempt;
    const running = new ExecutionScope(context, call.handler, undefined, transaction, 'all');
    let found: Recovery = 'run';
    try {
      if (recover !== undefined) found = await executionScope.run(running, recover);
    } catch (error) {
      await attempt.release();
      return interruptionOf(call, attempt, error) ?? failure(error);
    }
    let value: unknown;
    try {
      value = await executionScope.run(running, () =>
        found === 'run' ? operation(context) : call.format.ofFound(found.value),
      );
    } catch (error) {
      if (running.isActive && transaction === undefined) {
        // A timeout inside of the interceptor has thrown, and the operation still runs.
        running.whenIdle(() => {
          void endLate(call, attempt, running);
        });
        return failure(error);
      }
      const isOperations = call.handler === undefined || running.isEntered;
      return settleFailure(call, attempt, error, isOperations);
    }
    return succeed(call, attempt, value);
  }
}

/** @throws {@link OperationRejectedError} when there is no outcome, or else the operation's error. */
export function valueOf(result: CallResult): unknown {
  if (result.kind === 'value') return result.value;
  throw result.error;
}

function operationRequestOf(call: Call): OperationRequest {
  const { operation, keyOperation, key, scope, fingerprint, options } = call;
  return {
    recordKey: recordKey({ scope, operation: keyOperation, key }),
    fingerprint,
    operation,
    scope,
    key,
    options,
    waitAtMostMs: call.waitAtMostMs,
    clientSignal: call.clientSignal,
  };
}

async function succeed(call: Call, attempt: Attempt, value: unknown): Promise<CallResult> {
  if (!asksToKeep(call.keep, keepSuccesses, {})) return succeedUnkept(call, attempt, value);
  const encoded = call.format.encode(value);
  if (encoded instanceof ValueNotStorableError && attempt.transaction !== undefined) {
    await attempt.release();
    return failure(
      new ValueNotStorableError(`The transaction was rolled back. ${encoded.message}`, {
        cause: encoded.cause,
      }),
    );
  }
  // The operation is done: a retry must not run it again, even with nothing to replay.
  const outcome = encoded instanceof ValueNotStorableError ? VALUE_NOT_KEPT : encoded;
  const { maxOutcomeBytes } = call;
  const isKept = maxOutcomeBytes !== 'none' && outcome.body.length <= maxOutcomeBytes;
  const settlement = await complete(
    call,
    attempt,
    'completed',
    isKept ? outcome : VALUE_NOT_KEPT,
    {},
  );
  if (settlement.kind === 'own' && encoded instanceof ValueNotStorableError) {
    return failure(encoded);
  }
  return settledResult(call, settlement, outcome);
}

/** Settles an operation that outlived a timeout: even so, a success must not run again (protocol, rule 3). */
async function endLate(call: Call, attempt: Attempt, running: ExecutionScope): Promise<void> {
  const isKept = running.hasReturned && asksToKeep(call.keep, keepSuccesses, {});
  if (isKept) await complete(call, attempt, 'completed', call.format.done, {});
  else await attempt.release();
}

/** Commits or releases without storing the value, as `outcome.keep` asks. */
async function succeedUnkept(call: Call, attempt: Attempt, value: unknown): Promise<CallResult> {
  const settlement = await attempt.transaction?.commitUnkept();
  if (settlement === undefined) await attempt.release();
  return settlement === undefined || settlement.kind === 'own'
    ? { kind: 'value', value, isReplayed: false }
    : settledResult(call, settlement, VALUE_NOT_KEPT);
}

/** The result where the transaction failed, and not the operation. */
function interruptionOf(
  { options }: Call,
  { transaction }: Attempt,
  error: unknown,
): CallResult | undefined {
  if (transaction?.isConflict(error) === true) {
    transaction.conflicted();
    return rejectedResult('idempotency_transaction_conflict', options);
  }
  return transaction?.isInterruption(error) === true
    ? rejectedResult('idempotency_store_unavailable', options)
    : undefined;
}

async function settleFailure(
  call: Call,
  attempt: Attempt,
  error: unknown,
  isOperations: boolean,
): Promise<CallResult> {
  const interruption = interruptionOf(call, attempt, error);
  if (interruption !== undefined) {
    await attempt.release();
    return interruption;
  }
  if (!isOperations || !asksToKeep(call.keep, keepSuccesses, { error })) {
    await attempt.release();
    return failure(error);
  }
  const outcome = call.format.encodeFailure(error);
  const settlement = await complete(call, attempt, 'failed', outcome, { error });
  return settlement.kind === 'own'
    ? { kind: 'failure', error, isKept: true, isReplayed: false }
    : settledResult(call, settlement, outcome);
}

function complete(
  { options }: Call,
  attempt: Attempt,
  state: FinishedState,
  outcome: Outcome,
  summary: { error?: unknown },
): Promise<Settlement> {
  const retentionMs = finishedRetentionMs(options, { ...summary, state });
  return attempt.complete({ state, outcome, retentionMs, undo: state === 'failed' });
}

/** The first caller gets the same value as retries do: as it was stored, not as it was returned. */
function settledResult(call: Call, settlement: Settlement, own: Outcome): CallResult {
  switch (settlement.kind) {
    case 'own':
      return decodedResult(call, own, false);
    case 'other':
      return decodedResult(call, settlement.outcome, true);
    default:
      return rejectedResult(REJECTION_CODES[settlement.kind], call.options);
  }
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

function failure(error: unknown): CallResult {
  return { kind: 'failure', error, isKept: false, isReplayed: false };
}
