import type { IdempotencyEngine } from '../engine/idempotency-engine.js';
import type { Attempt, Settlement } from '../operation/attempt.js';
import { contextOf, ExecutionScope, executionScope } from '../operation/execution-scope.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { finishedRetentionMs, type ResolvedProtocolOptions } from '../operation/options.js';
import { recoveryOf, type Recover, type Recovery, type Services } from '../operation/recovery.js';
import type { Outcome } from '../record/record.js';

/** What it takes to recover records of one operation without a request. */
export interface RecoverableOperation {
  /** The operation's own; `onTakeover` is a function. */
  readonly options: ResolvedProtocolOptions & { readonly onTakeover: Recover };
  /** What is stored in the place of `value`; `undefined` where the operation's policy does not keep it. */
  outcomeOf(value: unknown): Outcome | undefined;
}

/** A record to be recovered, without the options of its operation. */
export type AbandonedRequest = Omit<OperationRequest, 'options'>;

/** What became of a record that was left behind. */
export type RecoveryResult =
  /** What had been done was found, and stored. */
  | 'completed'
  /** Nothing had been done: the operation may run again at once. */
  | 'released'
  /** Somebody else has taken it, or finished it, in between. */
  | 'overtaken'
  /** Nothing was found out, or what was found out could not be stored in time. */
  | 'failed'
  /** The store cannot be asked, or the process ends. */
  | 'interrupted';

/**
 * Takes over a record that was left behind, as a request would, which fences its earlier owner and keeps the
 * others away; then asks the operation's `onTakeover`, and completes or releases.
 */
export async function recoverRecord(
  engine: IdempotencyEngine,
  services: Services,
  record: AbandonedRequest,
  operation: RecoverableOperation,
): Promise<RecoveryResult> {
  const options = withoutCaller(operation.options);
  // It is not worth waiting for: whoever has it now will end it.
  const request: OperationRequest = { ...record, options, waitAtMostMs: 0 };
  const decision = await engine.begin(request);
  if (decision.kind === 'replay') return 'overtaken';
  if (decision.kind === 'reject') {
    const { reason } = decision;
    const isEnd = reason === 'store_unavailable' || reason === 'shutting_down';
    return isEnd ? 'interrupted' : 'overtaken';
  }
  const { attempt } = decision;
  const context = contextOf(request, attempt);
  const recover = recoveryOf(
    withinAttempt(options.onTakeover, attempt),
    attempt,
    context,
    services,
  );
  if (recover === undefined) {
    // The record had ceased to exist: there is no earlier attempt to ask about.
    await attempt.release();
    return 'overtaken';
  }
  let found: Recovery;
  try {
    found = await executionScope.run(new ExecutionScope(context), recover);
  } catch (error) {
    const { number, fencingToken } = attempt;
    const subject = { operation: request.operation, recordKey: request.recordKey };
    engine.events.emit({
      type: 'recovery_failed',
      ...subject,
      attempt: number,
      fencingToken,
      error,
    });
    await attempt.release();
    return 'failed';
  }
  const outcome = found === 'run' ? undefined : operation.outcomeOf(found.value);
  if (outcome === undefined) {
    await attempt.release();
    return 'released';
  }
  const retentionMs = finishedRetentionMs(options, { state: 'completed' });
  return recoveryResultOf(await attempt.complete({ state: 'completed', outcome, retentionMs }));
}

/** The operation's options, for an attempt that nobody waits for and that does not run the operation. */
function withoutCaller(options: RecoverableOperation['options']): RecoverableOperation['options'] {
  return {
    ...options,
    // Without a record there is nothing to recover.
    onStoreUnavailable: 'reject',
    onSaveFailure: 'error',
    // Should another attempt hold the record when this one completes, that one will tell.
    waitTimeoutMs: 1,
    // It looks at what was committed, and writes nothing itself.
    transactional: false,
  };
}

/** A look that never ends must not keep the others waiting: its attempt ends with `maxExecutionMs`. */
function withinAttempt(recover: Recover, { signal }: Attempt): Recover {
  return (context, services) =>
    new Promise((resolve, reject) => {
      const giveUp = () => {
        reject(new Error(`It was not done when its attempt had to end: ${String(signal.reason)}.`));
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
    case 'in_progress':
      return 'overtaken';
    case 'unsaved':
    case 'conflict':
      return 'failed';
  }
}
