import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { OutcomePolicy } from '../../core/operation/outcome-policy.js';
import type { Transport, UnprotectedReason } from '../../core/record/events.js';
import type { Fingerprint } from '../../core/record/record.js';
import type { Scope } from '../../core/record/scope.js';
import type { OperationRejectedError } from '../../core/util/errors.js';
import type { OutcomeFormat } from './outcome-format.js';

/** One call of an operation that takes and returns values. */
export interface Call {
  readonly operation: string;
  readonly transport: Exclude<Transport, 'http'>;
  /** The operation within which the key is unique; `undefined`: all operations of the scope. */
  readonly keyOperation: string | undefined;
  readonly key: string;
  readonly scope: Scope;
  /** Of the operation's input: another fingerprint under the same key is a mismatch. */
  readonly fingerprint: Fingerprint;
  readonly keep: OutcomePolicy;
  readonly format: OutcomeFormat;
  /** A larger value is returned, but not stored; `'none'`: no value is stored. */
  readonly maxOutcomeBytes: number | 'none';
  readonly options: ResolvedProtocolOptions;
  /** The longest time that the caller waits for an attempt in progress. */
  readonly waitAtMostMs?: number | undefined;
  /** Aborted when the caller no longer waits for the outcome. */
  readonly clientSignal?: AbortSignal | undefined;
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
