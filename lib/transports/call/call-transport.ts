import { contextOf } from '../../core/attempt-context.js';
import type { Attempt, Settlement } from '../../core/attempt.js';
import { canonicalJson } from '../../core/canonical-json.js';
import type { Claim } from '../../core/claim.js';
import {
  hasCode,
  OperationRejectedError,
  ValueNotStorableError,
  type IdempotencyErrorCode,
} from '../../core/errors.js';
import type { RejectionReason } from '../../core/events.js';
import { fingerprint } from '../../core/fingerprint.js';
import type { IdempotencyContext } from '../../core/idempotency-context.js';
import { RunningOperation, runningOperation } from '../../core/running-operation.js';
import type { IdempotencyEngine } from '../../core/idempotency-engine.js';
import { finishedRetentionMs, type ResolvedProtocolOptions } from '../../core/options.js';
import { jitteredPause } from '../../core/pause.js';
import { asksToKeep, keepSuccesses, type OutcomePolicy } from '../../core/outcome-policy.js';
import type { FinishedState, Outcome } from '../../core/record.js';
import { recordKey, type Scope } from '../../core/record-key.js';
import { recoveryOf, type Recovery, type Services } from '../../core/recovery.js';
import { decodeOutcome, encodeFailure, encodeValue, VALUE_NOT_KEPT } from './call-outcome.js';

/** One call of an operation that comes in by no transport of its own. */
export interface Call {
  readonly operation: string;
  readonly key: string;
  readonly scope: Scope;
  /** What the operation is about: another payload under the same key is a mismatch. */
  readonly payload: unknown;
  readonly keep: OutcomePolicy;
  /** A larger value is returned, and kept as "value not kept". */
  readonly maxStoredBytes: number;
  readonly options: ResolvedProtocolOptions;
}

const REJECTIONS: Record<
  RejectionReason | 'conflict',
  { code: IdempotencyErrorCode; retryable: boolean; text: string }
> = {
  mismatch: {
    code: 'idempotency_key_reused',
    retryable: false,
    text: 'The key was used for another payload.',
  },
  in_progress: {
    code: 'idempotency_in_progress',
    retryable: true,
    text: 'A call with this key is in progress.',
  },
  outcome_unknown: {
    code: 'idempotency_outcome_unknown',
    retryable: false,
    text: 'The first call with this key ended unknown, and "onTakeover" forbids to run it again.',
  },
  store_unavailable: {
    code: 'idempotency_store_unavailable',
    retryable: true,
    text: 'The idempotency store is unavailable.',
  },
  conflict: {
    code: 'idempotency_transaction_conflict',
    retryable: true,
    text: 'A concurrent transaction was in the way, and all was rolled back.',
  },
  shutting_down: {
    code: 'idempotency_shutting_down',
    retryable: true,
    text: 'The process is shutting down.',
  },
};

/** Before the operation runs again after the first conflict of its transaction; then twice as long, and so on. */
const CONFLICT_PAUSE_MS = 20;

/** Protects plain calls: value in, value out. */
export class CallTransport {
  constructor(
    private readonly engine: IdempotencyEngine,
    private readonly services: Services,
  ) {}

  /**
   * Runs `operation`, or returns the value that its first run returned.
   *
   * @throws {@link OperationRejectedError} when it did not run and there is no outcome.
   * @throws {@link FailureReplayedError} when its first failure was kept.
   */
  async run(call: Call, operation: (context: IdempotencyContext) => unknown): Promise<unknown> {
    for (let conflicts = 0; ; conflicts += 1) {
      try {
        return await this.runOnce(call, operation);
      } catch (error) {
        const { transactional, conflictRetries } = call.options;
        const isConflict = transactional && hasCode(error, 'idempotency_transaction_conflict');
        if (!isConflict || conflicts >= conflictRetries) throw error;
        await jitteredPause(CONFLICT_PAUSE_MS * 2 ** conflicts);
      }
    }
  }

  private async runOnce(
    call: Call,
    operation: (context: IdempotencyContext) => unknown,
  ): Promise<unknown> {
    const claim = claimOf(call);
    const decision = await this.engine.begin(claim);
    switch (decision.kind) {
      case 'run':
        return this.execute(call, claim, decision.attempt, operation);
      case 'replay':
        return decodeOutcome(decision.outcome);
      case 'reject':
        throw rejection(decision.reason, call.options);
    }
  }

  private async execute(
    call: Call,
    claim: Claim,
    attempt: Attempt,
    operation: (context: IdempotencyContext) => unknown,
  ): Promise<unknown> {
    const context = contextOf(claim, attempt);
    const recover = recoveryOf(claim.options.onTakeover, attempt, context, this.services);
    const { transaction } = attempt;
    const running = new RunningOperation(context, undefined, undefined, transaction);
    let found: Recovery = 'run';
    try {
      if (recover !== undefined) found = await runningOperation.run(running, recover);
    } catch (error) {
      await attempt.release();
      throw interruptionOf(call, attempt, error) ?? error;
    }
    let value: unknown;
    try {
      value = await runningOperation.run(running, () =>
        found === 'run' ? operation(context) : found.value,
      );
    } catch (error) {
      return fail(call, attempt, error);
    }
    return succeed(call, attempt, value);
  }
}

function claimOf({ operation, key, scope, payload, options }: Call): Claim {
  return {
    recordKey: recordKey({ scope, operation, key }),
    fingerprint: fingerprint([operation, canonicalJson(payload)]),
    operation,
    scope,
    key,
    options,
  };
}

async function succeed(call: Call, attempt: Attempt, value: unknown): Promise<unknown> {
  if (!asksToKeep(call.keep, keepSuccesses, {})) return succeedUnkept(call, attempt, value);
  const encoded = encodeValue(value);
  if (encoded instanceof ValueNotStorableError && attempt.transaction !== undefined) {
    await attempt.release();
    throw new ValueNotStorableError(
      'The transaction was rolled back: JSON has no text for what the operation returned (a BigInt, a function, a symbol or a circle). Return something that JSON can express.',
      { cause: encoded.cause },
    );
  }
  // Done is done: a repetition must not run it again, even if there is nothing to replay.
  const outcome = encoded instanceof ValueNotStorableError ? VALUE_NOT_KEPT : encoded;
  const kept = outcome.body.length > call.maxStoredBytes ? VALUE_NOT_KEPT : outcome;
  const settlement = await complete(call, attempt, 'completed', kept, {});
  if (settlement.kind === 'own' && encoded instanceof ValueNotStorableError) throw encoded;
  return answer(call, settlement, outcome);
}

/** What has happened has happened, whether it is remembered or not. */
async function succeedUnkept(call: Call, attempt: Attempt, value: unknown): Promise<unknown> {
  const settlement = await attempt.transaction?.commitUnkept();
  if (settlement === undefined) await attempt.release();
  return settlement === undefined || settlement.kind === 'own'
    ? value
    : answer(call, settlement, VALUE_NOT_KEPT);
}

/** What the caller is told where the transaction failed and not the operation. */
function interruptionOf(
  { options }: Call,
  { transaction }: Attempt,
  error: unknown,
): OperationRejectedError | undefined {
  if (transaction?.isConflict(error) === true) {
    transaction.conflicted();
    return rejection('conflict', options);
  }
  return transaction?.isInterruption(error) === true
    ? rejection('store_unavailable', options)
    : undefined;
}

async function fail(call: Call, attempt: Attempt, error: unknown): Promise<unknown> {
  const interruption = interruptionOf(call, attempt, error);
  if (interruption !== undefined) {
    await attempt.release();
    throw interruption;
  }
  if (!asksToKeep(call.keep, keepSuccesses, { error })) {
    await attempt.release();
    throw error;
  }
  const outcome = encodeFailure(error);
  const settlement = await complete(call, attempt, 'failed', outcome, { error });
  if (settlement.kind === 'own') throw error;
  return answer(call, settlement, outcome);
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

/** The first caller gets what later ones get: the value as it was stored, not as it was returned. */
function answer({ options }: Call, settlement: Settlement, own: Outcome): unknown {
  switch (settlement.kind) {
    case 'own':
      return decodeOutcome(own);
    case 'other':
      return decodeOutcome(settlement.outcome);
    case 'in_progress':
      throw rejection('in_progress', options);
    case 'unsaved':
      throw rejection('store_unavailable', options);
    case 'conflict':
      throw rejection('conflict', options);
  }
}

function rejection(reason: keyof typeof REJECTIONS, { retryAfterMs }: ResolvedProtocolOptions) {
  const { code, retryable, text } = REJECTIONS[reason];
  return new OperationRejectedError(text, code, retryable ? retryAfterMs : undefined);
}
