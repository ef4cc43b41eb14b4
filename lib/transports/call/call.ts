import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { OutcomePolicy } from '../../core/operation/outcome-policy.js';
import type { Fingerprint } from '../../core/record/record.js';
import type { Scope } from '../../core/record/record-key.js';
import type { OperationRejectedError } from '../../core/util/errors.js';
import type { OutcomeFormat } from './outcome-format.js';

/** One call of an operation that takes and gives values. */
export interface Call {
  /** The operation's stable name. */
  readonly operation: string;
  /** Over what the key is unique; `undefined`: over all operations of the scope. */
  readonly keyOperation: string | undefined;
  readonly key: string;
  readonly scope: Scope;
  /** Of what the operation is about: another one under the same key is a mismatch. */
  readonly fingerprint: Fingerprint;
  readonly keep: OutcomePolicy;
  readonly format: OutcomeFormat;
  /** A larger value is returned, and kept as "value not kept"; `'none'`: every value is. */
  readonly maxStoredBytes: number | 'none';
  readonly options: ResolvedProtocolOptions;
  /** How long the caller waits for an attempt in progress, at the most. */
  readonly waitAtMostMs?: number | undefined;
  /** Aborted when nobody waits for the outcome any more. */
  readonly clientSignal?: AbortSignal | undefined;
  /**
   * The method that is the operation, where it reports its own entry: what fails before it is reached (a pipe, say) is
   * released whatever the policy says.
   */
  readonly handler?: object;
}

/** How a call ended. */
export type CallResult =
  | { readonly kind: 'value'; readonly value: unknown; readonly isReplayed: boolean }
  | {
      readonly kind: 'failure';
      readonly error: unknown;
      /** Repetitions are told the same. */
      readonly isKept: boolean;
      readonly isReplayed: boolean;
    }
  /** It did not run, or its end is not known yet, and there is no outcome. */
  | { readonly kind: 'rejected'; readonly error: OperationRejectedError };
