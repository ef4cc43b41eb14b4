import type { RecordKey, RecordState } from '../record/record.js';
import type { Duration, InMilliseconds } from '../options/duration.js';
import { duration, isFunction, of, type Group } from '../options/option-schema.js';

/** What an operator may do to a record. */
export type OperatorAction = 'release' | 'complete' | 'reopen' | 'redact' | 'retain' | 'delete';

/** What an operator does: told before it, as `intent`, and after it, as `result`. Without keys, callers and outcomes. */
export interface AuditEntry {
  readonly phase: 'intent' | 'result';
  /** By the process' clock. */
  readonly at: Date;
  readonly action: OperatorAction;
  readonly recordKey: RecordKey;
  /** What the operator saw. */
  readonly expected: { readonly state: RecordState; readonly fence: number };
  readonly actor: string;
  readonly reason: string;
  readonly evenIfRunning: boolean;
  /** Of `complete` with an outcome that the operator has given: of which kind. */
  readonly given?: 'value' | 'answer';
  /** Of a `result`: what the store replied, or `failed` if it gave no reply; then the act may have happened. */
  readonly result?: string;
  /** Of a `result`: as of an `ActionResult`. */
  readonly body?: 'deleted' | 'left';
}

/** How operators act on records, with `IdempotencyRecords`. */
export interface OperatorOptions {
  /**
   * Is called before each act and after it, and awaited: `postgresAudit(…)`, `redisAudit(…)`, or your own. If it throws or rejects before the act, nothing is done: the act
   * rejects with `AuditUnavailableError`.
   * @defaultValue a line in the log for each entry
   */
  readonly audit?: (entry: AuditEntry) => void | Promise<void>;
  /**
   * How long an outcome has to be stored until an operator may drop it. A late copy of the owner's command would otherwise
   * find no record, and store the outcome again.
   * @defaultValue '1m', from '0ms' to '24h'
   */
  readonly settledFor?: Duration;
}

export type ResolvedOperatorOptions = InMilliseconds<
  Required<Pick<OperatorOptions, 'settledFor'>>
> &
  Pick<OperatorOptions, 'audit'>;

export const OPERATOR: Group<OperatorOptions, ResolvedOperatorOptions> = {
  fields: {
    audit: of('a function', isFunction, { defaultText: 'a line in the log for each entry' }),
    settledFor: duration({ default: '1m', min: '0ms', max: '24h' }),
  },
  places: ['module'],
};
