import type {
  Attempt,
  AttemptTransaction,
  FinalOutcome,
  Settlement,
} from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { inProgressRetentionMs, isAwaited } from '../operation/options.js';
import type { AttemptSubject, LeaseLossReason } from '../record/events.js';
import type { Lease } from '../record/record.js';
import type { Acquisition, ReleaseReply } from '../store/idempotency-store.js';
import type { TransactionalRecords } from '../store/transactional-records.js';
import { DeferredTransaction, type TransactionEnd } from '../transaction/deferred-transaction.js';
import type { OpenTransaction, UnitOfWork } from '../transaction/unit-of-work.js';
import { asError, NoTransactionError, StoreUnavailableError } from '../util/errors.js';
import { forget } from '../util/maybe-async.js';
import { isDoneWithin, jitteredPause, monotonicNow } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { LeaseKeeper } from './lease-keeper.js';
import { LeasedAttempt } from './leased-attempt.js';
import { OutcomeWriter } from './outcome-writer.js';

const OWN: Settlement = { kind: 'own' };

/** The timeout for opening the transaction, as a part of the lease: the record is not locked before. */
const OPENING_PART = 2 / 3;

/** How long after the hard deadline the server ends a transaction that this process has not ended. */
const SERVER_MARGIN_MS = 1_000;

/** Pause between two checks of whether a transaction has ended at the server. */
const RETRY_PAUSE_MS = 250;

export interface Transactions {
  readonly unitOfWork: UnitOfWork;
  readonly records: TransactionalRecords;
}

/**
 * An attempt whose outcome is committed together with its operation's writes. The transaction's lock on the record
 * serves as the lease: it needs no heartbeat, and ends with the transaction or the process. A commit without a reply
 * may have happened. Once the lock is released, the attempt sends its release: if the record is finished, it was
 * committed.
 */
export class TransactionalAttempt implements Attempt, AttemptTransaction {
  readonly number: number;
  readonly isTakeover: boolean;
  readonly fencingToken: number;
  readonly isProtected = true;
  private readonly subject: AttemptSubject;
  private readonly keeper: LeaseKeeper;
  private readonly writer: OutcomeWriter;
  /** Stores outcomes outside of the transaction, after its end. */
  private readonly afterwards: LeasedAttempt;
  private hooks: (() => unknown)[] = [];
  private deferred: DeferredTransaction | undefined;

  constructor(
    private readonly services: AttemptServices,
    private readonly request: OperationRequest,
    private readonly lease: Lease,
    acquisition: Acquisition,
    private readonly startedAt: number,
    private readonly transactions: Transactions,
  ) {
    const { operation, recordKey, options } = request;
    const { attempt, takeovers, fence } = acquisition;
    this.number = attempt;
    this.isTakeover = takeovers > 0;
    this.fencingToken = fence;
    this.subject = { operation, recordKey, attempt, fencingToken: fence };
    const { store, events, shutdownState, deadlines } = services;
    this.keeper = new LeaseKeeper(store, undefined, options, startedAt, this, deadlines);
    this.writer = new OutcomeWriter(store, request, lease, shutdownState);
    const settling = () => {
      services.settling(this);
    };
    const ended = this.end.bind(this);
    const servicesAfterwards = { store, events, shutdownState, deadlines, settling, ended };
    this.afterwards = new LeasedAttempt(servicesAfterwards, request, lease, acquisition, startedAt);
  }

  get signal(): AbortSignal {
    return this.keeper.signal;
  }

  get transaction(): AttemptTransaction {
    return this;
  }

  get handle(): unknown {
    return this.deferred?.transaction.handle;
  }

  isConflict(error: unknown): boolean {
    return isReportedTrue(() => this.transactions.unitOfWork.isConflict(error));
  }

  isInterruption(error: unknown): boolean {
    const isLost = this.deferred?.transaction.lost?.aborted === true;
    return isLost || isReportedTrue(() => this.transactions.unitOfWork.isInterruption(error));
  }

  conflicted(): void {
    this.services.events.emit({ type: 'conflicted', ...this.subject });
  }

  onCommitted(hook: () => unknown): void {
    if (this.deferred?.isDecided === true) {
      throw new NoTransactionError(
        `onCommitted() was called in ${this.request.operation} after its transaction had ended. Call it before the operation returns.`,
      );
    }
    this.hooks.push(hook);
  }

  async restart(pauseMs: number): Promise<boolean> {
    this.hooks = [];
    if (this.isLost() || !(await this.rollBack()) || !(await this.extend())) return false;
    await jitteredPause(pauseMs);
    return !this.isLost() && (await this.start()) === undefined;
  }

  giveUp(): void {
    void this.rollBack();
  }

  /** @returns an error if the operation must not start: there is no transaction, or another attempt has the record. */
  async start(): Promise<Error | undefined> {
    const { lease, transaction: settings } = this.request.options;
    const isolation = settings === false ? 'default' : settings.isolation;
    try {
      this.deferred = await DeferredTransaction.open(
        this.transactions.unitOfWork,
        {
          isolation: isolation === 'default' ? undefined : isolation,
          timeoutMs: Math.max(1, Math.ceil(this.leftMs)),
        },
        (transaction) => this.lock(transaction),
        lease.durationMs * OPENING_PART,
      );
    } catch (cause) {
      this.reportMismatch(cause);
      return new StoreUnavailableError(
        `The transaction could not be opened: ${asError(cause).message}`,
        { cause },
      );
    }
    void this.keeper.start();
    const { transaction, ended } = this.deferred;
    transaction.lost?.addEventListener('abort', this.onConnectionLost);
    // The signal may be the connection's, which outlives the transaction.
    void ended.then(() => {
      transaction.lost?.removeEventListener('abort', this.onConnectionLost);
    });
    return undefined;
  }

  async complete(final: FinalOutcome): Promise<Settlement> {
    if (final.undo === true) {
      await this.rollBack();
      return this.afterwards.complete(final);
    }
    const end = await this.commit(final);
    if (end?.kind === 'committed') return this.committed(final);
    return this.afterFailedCommit(final, end);
  }

  async commitUnkept(): Promise<Settlement> {
    const end = await this.commitAfter(() => Promise.resolve());
    if (end?.kind === 'committed') {
      void this.runHooks();
      await this.afterwards.release();
      return OWN;
    }
    await this.release();
    return end !== undefined && this.isConflict(end.error)
      ? { kind: 'conflict' }
      : { kind: 'unsaved' };
  }

  async release(): Promise<void> {
    const giveUpAt = monotonicNow() + this.request.options.storeErrors.saveTimeoutMs;
    if ((await this.rollBack()) || (await this.isOver(giveUpAt))) {
      await this.afterwards.release();
    } else {
      // The key becomes free when the server detects the closed connection.
      this.services.events.emit({ type: 'release_failed', ...this.subject });
      this.end();
    }
  }

  recovered(): void {
    this.afterwards.recovered();
  }

  responseDiverged(): void {
    this.afterwards.responseDiverged();
  }

  /** @internal */
  leaseLost(reason: LeaseLossReason): void {
    this.services.events.emit({ type: 'lease_lost', ...this.subject, reason });
    this.services.lost(this);
    // The server ends it as well, in case this process cannot.
    void this.rollBack();
  }

  /** @internal */
  abortReason(reason: LeaseLossReason): LeaseLossReason {
    return reason;
  }

  /** @internal */
  slow(elapsedMs: number): void {
    this.services.events.emit({ type: 'slow_attempt', ...this.subject, elapsedMs });
  }

  private async lock(transaction: OpenTransaction): Promise<void> {
    const maxExecutionMs = Math.max(0, Math.ceil(this.leftMs)) + SERVER_MARGIN_MS;
    const { records } = this.transactions;
    if (!(await records.lock(transaction, this.lease, { maxExecutionMs }))) {
      throw new Error(
        'The record could not be locked. Another attempt has taken it over, or "unitOfWork" and "store" use different databases.',
      );
    }
  }

  private commit(final: FinalOutcome): Promise<TransactionEnd | undefined> {
    return this.commitAfter(async (transaction) => {
      if (!(await this.transactions.records.complete(transaction, this.lease, final))) {
        throw new Error(
          'The outcome could not be stored in the transaction: the record is no longer in progress, or the transaction is a different one.',
        );
      }
    });
  }

  /** @returns the end, or `undefined` if it is not known in time. */
  private async commitAfter(
    last: (transaction: OpenTransaction) => Promise<void>,
  ): Promise<TransactionEnd | undefined> {
    const { deferred } = this;
    if (deferred === undefined) return undefined;
    const committing = deferred.commit(last);
    if (await isDoneWithin(this.request.options.storeErrors.saveTimeoutMs, committing)) {
      const end = await committing;
      if (end.kind === 'failed') this.reportMismatch(end.error);
      return end;
    }
    deferred.transaction.cut?.();
    return undefined;
  }

  /** Emitted here, as the store does not observe the application's connection. */
  private reportMismatch(error: unknown): void {
    if (!isReportedTrue(() => this.transactions.unitOfWork.isReplyMismatch(error))) return;
    this.services.events.emit({ type: 'reply_mismatched', error: asError(error) });
  }

  /** Between two transactions only the lease protects the record, and it may have expired. */
  private async extend(): Promise<boolean> {
    const { lease, storeErrors } = this.request.options;
    const { durationMs: leaseMs } = lease;
    const { commandTimeoutMs: timeoutMs } = storeErrors;
    const recordRetentionMs = inProgressRetentionMs(this.request.options);
    try {
      const extended = { leaseMs, recordRetentionMs, timeoutMs };
      const { kind } = await this.services.store.extend(this.lease, extended);
      return kind === 'ok' || kind === 'revived';
    } catch {
      return false;
    }
  }

  /**
   * Rolls back, closing the connection of a hanging transaction if possible. Returns whether the transaction has ended.
   */
  private async rollBack(): Promise<boolean> {
    this.keeper.stop();
    const { deferred } = this;
    if (deferred === undefined) return true;
    if (await isDoneWithin(this.request.options.storeErrors.saveTimeoutMs, deferred.rollBack()))
      return true;
    deferred.transaction.cut?.();
    return false;
  }

  /** Whether the transaction ends at the server before `giveUpAt` (monotonic). */
  private async isOver(giveUpAt: number): Promise<boolean> {
    const { commandTimeoutMs } = this.request.options.storeErrors;
    do {
      const leftMs = Math.max(1, Math.ceil(giveUpAt - monotonicNow()));
      const timeoutMs = Math.min(commandTimeoutMs, leftMs);
      const isEnded = this.transactions.records.ended(this.lease, { timeoutMs });
      if (await isDoneWithin(timeoutMs, isEnded)) return true;
      await jitteredPause(Math.min(RETRY_PAUSE_MS, leftMs));
    } while (monotonicNow() < giveUpAt && !this.services.shutdownState.expired);
    return false;
  }

  /** @returns the reply to the release after the transaction's end, or `undefined` if there is none in time. */
  private async commitOutcome(giveUpAt: number): Promise<ReleaseReply | undefined> {
    return (await this.isOver(giveUpAt)) ? this.writer.release(giveUpAt) : undefined;
  }

  private async afterFailedCommit(
    final: FinalOutcome,
    end: Extract<TransactionEnd, { kind: 'failed' }> | undefined,
  ): Promise<Settlement> {
    const error = end?.error;
    const { saveTimeoutMs } = this.request.options.storeErrors;
    const reply = await this.commitOutcome(monotonicNow() + saveTimeoutMs);
    if (reply !== undefined) return this.conclude(reply, final, error);
    this.services.events.emit({ type: 'save_delayed', ...this.subject });
    void this.concludeLater(final, error);
    return { kind: 'unsaved' };
  }

  /** After the 503: determines the outcome of the commit, for events and waiting duplicates. */
  private async concludeLater(final: FinalOutcome, error: unknown): Promise<void> {
    const reply = await this.commitOutcome(this.keeper.hardDeadlineAt);
    if (reply === undefined) {
      this.services.events.emit({ type: 'save_failed', ...this.subject });
      this.end();
    } else {
      this.conclude(reply, final, error, 'late');
    }
  }

  private conclude(
    { kind }: ReleaseReply,
    final: FinalOutcome,
    error: unknown,
    when: 'in time' | 'late' = 'in time',
  ): Settlement {
    if (kind === 'not_in_progress') return this.committed(final, when);
    const { events } = this.services;
    const isConflict = this.isConflict(error);
    if (isConflict) this.conflicted();
    // The outcome of a record that is gone is unknown: it may have expired after a short retention.
    else if (kind === 'gone') events.emit({ type: 'record_lost', ...this.subject });
    else events.emit({ type: 'rolled_back', ...this.subject, error });
    if (kind === 'ok' || kind === 'already') {
      const durationMs = monotonicNow() - this.startedAt;
      events.emit({ type: 'released', ...this.subject, durationMs });
    }
    this.end();
    return isConflict ? { kind: 'conflict' } : { kind: 'unsaved' };
  }

  private committed(final: FinalOutcome, when: 'in time' | 'late' = 'in time'): Settlement {
    const { options } = this.request;
    if (isAwaited(options)) {
      this.transactions.records.committed(this.lease, {
        timeoutMs: options.storeErrors.commandTimeoutMs,
      });
    }
    this.services.events.emit({
      type: 'completed',
      ...this.subject,
      state: final.state,
      late: when === 'late',
      durationMs: monotonicNow() - this.startedAt,
    });
    void this.runHooks().then(() => {
      this.end();
    });
    return OWN;
  }

  /** Only the shutdown waits for the hooks. */
  private async runHooks(): Promise<void> {
    await Promise.all(this.hooks.map((hook) => this.run(hook)));
  }

  private async run(hook: () => unknown): Promise<void> {
    try {
      await hook();
    } catch (error) {
      this.services.events.emit({ type: 'commit_hook_failed', ...this.subject, error });
    }
  }

  private get leftMs(): number {
    return this.keeper.hardDeadlineAt - monotonicNow();
  }

  /** A method, because the compiler does not expect an await to change the property. */
  private isLost(): boolean {
    return this.keeper.isLost;
  }

  private readonly onConnectionLost = (): void => {
    this.keeper.lose('connection_lost');
  };

  private end(): void {
    this.keeper.stop();
    this.services.ended(this);
  }
}

/** Treats an error of a custom unit of work as false: an attempt that is not ended would keep its key. */
function isReportedTrue(predicate: () => unknown): boolean {
  try {
    const result = predicate();
    forget(result);
    return result === true;
  } catch {
    return false;
  }
}
