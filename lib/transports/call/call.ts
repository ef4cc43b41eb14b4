import type { ReceivedRequest } from '../../core/operation/operation-request.js';
import type { OutcomePolicy } from '../../core/operation/outcome-policy.js';
import type { Transport, UnprotectedReason } from '../../core/record/events.js';
import type { OperationRejectedError } from '../../core/errors/errors.js';
import type { OutcomeFormat } from './outcome-format.js';

/** One call of an operation that takes and returns values. */
export interface Call extends ReceivedRequest {
  readonly transport: Exclude<Transport, 'http'>;
  readonly keep: OutcomePolicy;
  readonly format: OutcomeFormat;
  /** The operation's method, where it reports its own entry: any earlier failure (of a pipe, say) releases the key. */
  readonly handler?: object;
}

/** Why a handler runs without a call, as its options say. */
export type Bypass = Exclude<UnprotectedReason, 'store_unavailable'>;

export type CallResult =
  | { readonly kind: 'value'; readonly value: unknown; readonly isReplayed: boolean }
  | {
      readonly kind: 'failure';
      readonly error: unknown;
      /** Retries get the same error. */
      readonly isKept: boolean;
      readonly isReplayed: boolean;
    }
  /** The call did not run, or its outcome is not known yet. */
  | { readonly kind: 'rejected'; readonly error: OperationRejectedError };
