import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { RejectionReason } from '../../core/record/events.js';
import { OperationRejectedError, type IdempotencyErrorCode } from '../../core/util/errors.js';
import type { CallResult } from './call.js';

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
    text: 'What a call with this key has done is unknown, and it must not be run again.',
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

/** Why a call did not run, or has no outcome yet, in the words of the caller. */
export function rejected(
  reason: keyof typeof REJECTIONS,
  { retryAfterMs }: ResolvedProtocolOptions,
): CallResult {
  const { code, retryable, text } = REJECTIONS[reason];
  const error = new OperationRejectedError(text, code, retryable ? retryAfterMs : undefined);
  return { kind: 'rejected', error };
}
