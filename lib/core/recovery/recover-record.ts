import type { IdempotencyEngine } from '../engine/idempotency-engine.js';
import type { Attempt, Settlement } from '../operation/attempt.js';
import { contextOf, executionScope, recoveryOf } from '../operation/execution-scope.js';
import type { AbandonedRequest, OperationRequest } from '../operation/operation-request.js';
import { finishedRetentionMs, type ResolvedProtocolOptions } from '../operation/options.js';
import type { Recover, Recovery, Services } from '../operation/recovery.js';
import type { Outcome } from '../record/record.js';
import { errorTypeOf } from '../errors/errors.js';

/** What is needed to recover records of an operation without a request. */
export interface RecoverableOperation {
  readonly options: ResolvedProtocolOptions;
  /** The function of `onTakeover`. */
  readonly recover: Recover;
  /** Encodes `value` for storage; `undefined` if the operation's policy does not keep it. */
  outcomeOf(
    value: unknown,
    attempt: Pick<Attempt, 'keepsBody' | 'optionFailed'>,
  ): Outcome | undefined;
}

/** See {@link ReconcileReport}. `interrupted`: the store is unavailable, or the process is shutting down. */
export type RecoveryResult = 'completed' | 'released' | 'overtaken' | 'failed' | 'interrupted';

/** Takes over an abandoned record as a request would, fencing off its owner. Then calls `onTakeover` and settles it. */
export async function recoverRecord(
  engine: IdempotencyEngine,
  services: Services,
  record: AbandonedRequest,
  operation: RecoverableOperation,
): Promise<RecoveryResult> {
  const options = withoutCaller(operation.options);
  // No wait: an attempt that has the record will settle it.
  const request: OperationRequest = { ...record, options, waitAtMostMs: 0 };
  const decision = await engine.begin(request);
  if (decision.kind === 'replay') return 'overtaken';
  if (decision.kind === 'reject') {
    const { reason } = decision;
    const isEnd = reason === 'store_unavailable' || reason === 'shutting_down';
    return isEnd ? 'interrupted' : 'overtaken';
  }
  const { attempt } = decision;
  if (!attempt.isTakeover) {
    // The record had expired: there is no earlier attempt to look up.
    await attempt.release();
    return 'overtaken';
  }
  const context = contextOf(request, attempt);
  const recover = recoveryOf(withinAttempt(operation.recover, attempt), attempt, context, services);
  let found: Recovery;
  try {
    found = await executionScope.run({ context }, recover);
  } catch (error) {
    const { operation, recordKey } = request;
    const subject = { operation, recordKey, attempt: attempt.number };
    engine.events.emit({
      type: 'recovery_failed',
      ...subject,
      fencingToken: attempt.fencingToken,
      error,
      errorType: errorTypeOf(error),
    });
    await attempt.release();
    return 'failed';
  }
  const outcome = found === 'run' ? undefined : operation.outcomeOf(found.value, attempt);
  if (outcome === undefined) {
    await attempt.release();
    return 'released';
  }
  const retentionMs = finishedRetentionMs(options, { state: 'completed' }, attempt);
  return recoveryResultOf(await attempt.complete({ state: 'completed', outcome, retentionMs }));
}

/** The operation's options for an attempt that has no caller and does not run the operation. */
function withoutCaller(options: ResolvedProtocolOptions): ResolvedProtocolOptions {
  return {
    ...options,
    // Without a record there is nothing to recover.
    storeErrors: { ...options.storeErrors, whenUnavailable: 'reject', whenNotSaved: 'error' },
    // If another attempt has the record when this one completes, that attempt settles it.
    duplicates: { ...options.duplicates, timeout: 1 },
    // It reads what was committed, and writes nothing itself.
    transaction: false,
  };
}

/** Ends a hanging recovery with its attempt, after `lease.maxExecution`, so that it does not block the next records. */
function withinAttempt(recover: Recover, { signal }: Attempt): Recover {
  return (context, services) =>
    new Promise((resolve, reject) => {
      const giveUp = () => {
        reject(
          new Error(
            `lease.onTakeover was not done when its attempt ended (${String(signal.reason)}).`,
          ),
        );
      };
      signal.addEventListener('abort', giveUp, { once: true });
      const recovery = async () => recover(context, services);
      recovery()
        .then(resolve, reject)
        .finally(() => {
          signal.removeEventListener('abort', giveUp);
        });
    });
}

function recoveryResultOf({ kind }: Settlement): RecoveryResult {
  switch (kind) {
    case 'own':
      return 'completed';
    case 'other':
    case 'unknown':
    case 'outcome_unreadable':
    case 'outcome_unavailable':
    case 'in_progress':
      return 'overtaken';
    case 'unsaved':
    case 'conflict':
      return 'failed';
  }
}
