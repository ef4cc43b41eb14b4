import type {
  Abandoned,
  AbandonedPage,
  Amend,
  AmendReply,
  Begin,
  BeginReply,
  Complete,
  CompleteReply,
  Extend,
  ExtendReply,
  IdempotencyRecord,
  Inspect,
  List,
  RecordPage,
  Release,
  ReleaseReply,
  StopWatching,
  Watch,
} from '../record/commands.js';
import type { BreakerState } from '../record/events.js';
import type { Lease, RecordKey } from '../record/record.js';
import { checkSteps } from './diagnosis/check-steps.js';
import type { StoreWarning } from '../record/store-warning.js';
import type { Finding } from './diagnosis/finding.js';
import type { TransactionalRecords } from './transactional-records.js';

export type { StoreWarning } from '../record/store-warning.js';
export type { Finding, Verdict } from './diagnosis/finding.js';

/**
 * The port between the protocol and a database, and the injection token of the store in use. Each method is one atomic
 * step on one record, by the store's own clock. Replies are values, discriminated by `kind`. It rejects if the store
 * gave no reply:
 *
 * - {@link StoreUnavailableError}: the step did not happen.
 * - {@link StoreOutcomeUnknownError}: it may have happened, or may still happen.
 * - {@link StoreReplyMismatchedError}: the same; the connection returned the reply of another command.
 * - {@link StoreConfigurationError}: it cannot happen until the configuration is fixed.
 *
 * A store resends a command with the same arguments until its `timeoutMs` is over: every step is idempotent for its
 * owner. Test a custom store with the conformance kit in `nestjs-idempotency/testing/store`.
 */
export abstract class IdempotencyStore {
  /** The name of the database system, for health reports and metrics, such as `redis`. @defaultValue `'custom'` */
  // eslint-disable-next-line @typescript-eslint/class-literal-property-style -- A wrapper computes it.
  get system(): string {
    return 'custom';
  }

  /**
   * Whether other applications may use the same records: then the module requires its option `service`, whose name keeps
   * those of each apart. Return `false` only if no other process can reach them.
   * @defaultValue true
   */
  // eslint-disable-next-line @typescript-eslint/class-literal-property-style -- A wrapper computes it.
  get isShared(): boolean {
    return true;
  }

  /** The state of its circuit breaker; `undefined`, the default, without one. */
  get breaker(): BreakerState | undefined {
    return undefined;
  }

  /**
   * Number of expired records that it has deleted in this process, from 0; `undefined`, the default, where the server
   * deletes them itself.
   */
  get deletedRecords(): number | undefined {
    return undefined;
  }

  /**
   * Number of entries that its journal lacks, of changes that this process made, from 0; `undefined`, the default, without a
   * journal, or where there is either both or neither.
   */
  get missedEntries(): number | undefined {
    return undefined;
  }

  /**
   * Called when an application starts, before its first command. Each successful open is followed by one
   * {@link close} with the same observer. If open rejects, it must first undo what it did. Applications of one process may share a store, so
   * openings can overlap. A closed store can be opened again.
   * @param observer - notified, until it closes, of events that no command's reply reports.
   * @returns warnings about the server; empty when all is well. An unreachable server is a warning, since it may be
   * back before the first request.
   * @throws {@link StoreConfigurationError} if the store can never work with its configuration.
   */
  open(_observer?: StoreObserver): Promise<readonly StoreWarning[]> {
    return Promise.resolve([]);
  }

  /** Acquires the right to run the operation. */
  abstract begin(command: Begin): Promise<BeginReply>;

  /** Extends the lease of a running attempt. */
  abstract extend(lease: Lease, command: Extend): Promise<ExtendReply>;

  /** Stores the outcome, which never changes afterwards. */
  abstract complete(lease: Lease, command: Complete): Promise<CompleteReply>;

  /** Lets the operation run again at once. Never deletes an outcome. */
  abstract release(lease: Lease, command: Release): Promise<ReleaseReply>;

  /** Reads the record from the primary without changing it; `undefined` if there is none. */
  abstract inspect(recordKey: RecordKey, command: Inspect): Promise<IdempotencyRecord | undefined>;

  /**
   * Notifies waiting duplicates that the record may have been finished or released (`notify` in {@link Complete} and
   * {@link Release}). Best effort: a notification may be lost or spurious, so callers must also poll the record.
   * @param onEnd - may be called repeatedly until watching is stopped.
   * @returns once watching has started, a function that stops it; `undefined`, the default, if unsupported.
   */
  watch(
    _recordKey: RecordKey,
    _onEnd: () => void,
    _command: Watch,
  ): Promise<StopWatching | undefined> {
    return Promise.resolve(undefined);
  }

  /**
   * Lists abandoned records for the reconciler: in progress, with an origin and a lease that expired a while ago, not
   * locked by a transaction. A caller must take a record over before it acts on it. A record that exists from the first
   * page to the last is listed at least once, in any order. A lease that ends further ahead than its own length,
   * because the clock stepped back, is shortened to it.
   * @returns a page; `undefined`, the default, if the store does not support it.
   */
  abandoned(_command: Abandoned): Promise<AbandonedPage | undefined> {
    return Promise.resolve(undefined);
  }

  /**
   * Lists records for an operator, without their outcomes. It looks at no more than `maxScanned` of them for a page, and ends
   * one that has taken half of `timeoutMs` with a cursor: a busy server has short pages, not time-outs. A record
   * that exists from the first page to the last is listed at least once, in any order.
   * @returns a page; `undefined`, the default, if the store does not support it.
   */
  list(_command: List): Promise<RecordPage | undefined> {
    return Promise.resolve(undefined);
  }

  /**
   * Changes a record for an operator, in one step: see {@link Amend}. A record that a transaction has locked counts as one
   * whose lease is running, whatever the command says: its outcome is about to be committed.
   * @returns `undefined`, the default, if the store does not support it.
   */
  amend(_command: Amend): Promise<AmendReply | undefined> {
    return Promise.resolve(undefined);
  }

  /** The store's part in operations with `transaction`; `undefined`, the default, if it does not support them. */
  get transactional(): TransactionalRecords | undefined {
    return undefined;
  }

  /**
   * Checks the store from where it runs, as `npx nestjs-idempotency doctor` does: one finding after the other, over some
   * seconds. Writes records that no request can have, which are deleted or expire within ten seconds. Neither opens nor
   * closes the store: {@link close} ends what it had to connect. What the server rejects is a finding. The default checks
   * what every store has: its steps, the notification of waiting duplicates, the services, the latency.
   * @throws {@link IdempotencyOptionsError} when an option is invalid.
   */
  diagnose(): AsyncIterable<Finding> {
    return checkSteps(this, 'Implement watch() of the store.');
  }

  /**
   * Called when an application ends. The last close releases what the store opened itself, and nothing else. An
   * observer that never opened the store, because its application did not start, closes nothing.
   * @param observer - the one that {@link open} was called with.
   */
  abstract close(observer?: StoreObserver): Promise<void>;
}

/** Is notified of events that no command's reply reports. */
export interface StoreObserver {
  /** The module option `service` of who opens the store: its journal must not say another one. */
  readonly service?: string | undefined;

  /** A connection returned another command's reply and was closed, even if no command waits for that reply or fails. */
  replyMismatched(error: Error): void;

  /** A record was changed, but the store's journal has no entry of that. @param reason - a word of the server's error. */
  entryMissed?(recordKey: RecordKey, reason: string): void;

  /** A warning for the operator, for example that a connection was lost. */
  warned(warning: StoreWarning): void;
}
