import type { AttemptTransaction, FinalOutcome, Settlement } from '../operation/attempt.js';
import type { OperationRequest } from '../operation/operation-request.js';
import { isAwaited } from '../operation/options.js';
import type { AttemptEnd, LeaseLossReason } from '../record/events.js';
import type { Lease, Outcome } from '../record/record.js';
import type { Acquisition, ReleaseReply } from '../store/idempotency-store.js';
import type { TransactionalRecords } from '../store/transactional-records.js';
import type { TransactionEnd } from '../transaction/deferred-transaction.js';
import { OperationTransaction } from '../transaction/operation-transaction.js';
import type { OpenTransaction, UnitOfWork } from '../transaction/unit-of-work.js';
import { asError, errorTypeOf, StoreUnavailableError } from '../util/errors.js';
import { jitteredPause } from '../util/time.js';
import type { AttemptServices } from './attempt-services.js';
import { extendLease } from './lease-keeper.js';
import { LeasedAttempt, OWN, type When } from './leased-attempt.js';

/** The timeout for opening the transaction, as a part of the lease: the record is not locked before. */
const OPENING_PART = 2 / 3;

/** How long after the hard deadline the server ends a transaction that this process has not ended. */
const SERVER_MARGIN_MS = 1_000;

export interface Transactions {
  readonly unitOfWork: UnitOfWork;
  readonly records: TransactionalRecords;
}

/**
 * An attempt whose outcome is committed together with its operation's writes. The transaction's lock on the record
 * serves as the lease: it needs no heartbeat, and ends with the transaction or the process. An outcome that is not
 * committed with the writes is stored after the transaction's end, like that of any attempt.
 */
export class TransactionalAttempt extends LeasedAttempt implements AttemptTransaction {
  private readonly records: TransactionalRecords;
  private readonly work: OperationTransaction;
  /** Its last transaction met a conflict. */
  private isConflicted = false;
  /** Its operation succeeded, but another response was sent. */
  private isUndone = false;

  constructor(
    services: AttemptServices,
    request: OperationRequest,
    lease: Lease,
    acquisition: Acquisition,
    startedAt: number,
    { unitOfWork, records }: Transactions,
  ) {
    super(services, request, lease, acquisition, startedAt, 'no heartbeats');
    const { operation, options } = request;
    this.records = records;
    this.work = new OperationTransaction(
      unitOfWork,
      {
        operation,
        isolation: options.transaction === false ? 'default' : options.transaction.isolation,
        openWithinMs: options.lease.durationMs * OPENING_PART,
        endWithinMs: options.storeErrors.saveTimeoutMs,
        observer: this,
      },
      () => {
        this.keeper.lose('connection_lost');
      },
      services.clock,
    );
  }

  override get transaction(): AttemptTransaction {
    return this;
  }

  get handle(): unknown {
    return this.work.handle;
  }

  isConflict(error: unknown): boolean {
    return this.work.isConflict(error);
  }

  isInterruption(error: unknown): boolean {
    return this.work.isInterruption(error);
  }

  conflicted(): void {
    this.isConflicted = true;
    this.services.events.emit({ type: 'conflicted', ...this.subject });
  }

  undone(): void {
    this.isUndone = true;
    this.rolledBack(undefined);
  }

  onCommitted(hook: () => unknown): void {
    this.work.onCommitted(hook);
  }

  giveUp(): void {
    void this.rollBack();
  }

  /** @returns an error if the operation must not start: there is no transaction, or another attempt has the record. */
  override async start(): Promise<Error | undefined> {
    try {
      const timeoutMs = Math.max(1, Math.ceil(this.leftMs));
      await this.work.open(timeoutMs, (transaction) => this.lock(transaction));
    } catch (cause) {
      this.reportMismatch(cause);
      return new StoreUnavailableError(
        `The transaction could not be opened: ${asError(cause).message}`,
        { cause },
      );
    }
    void this.keeper.start();
    return undefined;
  }

  async restart(pauseMs: number): Promise<boolean> {
    if (this.keeper.isLost() || !(await this.rollBack()) || !(await this.extend())) return false;
    await jitteredPause(pauseMs, this.clock);
    const isOpen = !this.keeper.isLost() && (await this.start()) === undefined;
    if (isOpen) this.isConflicted = false;
    return isOpen;
  }

  override async complete(final: FinalOutcome): Promise<Settlement> {
    if (final.undo === true) {
      await this.rollBack();
      return super.complete(final);
    }
    const end = await this.commit((transaction) => this.store(transaction, final));
    return end?.kind === 'committed'
      ? this.committed(final)
      : this.afterFailedCommit(final, end?.error);
  }

  async commitUnkept(): Promise<Settlement> {
    const end = await this.commit(() => Promise.resolve());
    if (end?.kind === 'committed') {
      void this.runHooks();
      await super.release();
      return OWN;
    }
    await this.release();
    const isConflict = end !== undefined && this.isConflict(end.error);
    return { kind: isConflict ? 'conflict' : 'unsaved' };
  }

  override async release(): Promise<void> {
    const giveUpAt = this.clock.now() + this.request.options.storeErrors.saveTimeoutMs;
    if ((await this.rollBack()) || (await this.writer.isUnlocked(this.records, giveUpAt))) {
      await super.release();
    } else {
      // The key becomes free when the server detects the closed connection.
      this.releaseFailed();
    }
  }

  /** @internal */
  override leaseLost(reason: LeaseLossReason): void {
    super.leaseLost(reason);
    this.services.lost(this);
    // The server ends it as well, in case this process cannot.
    void this.rollBack();
  }

  private async lock(transaction: OpenTransaction): Promise<void> {
    const maxExecutionMs = Math.max(0, Math.ceil(this.leftMs)) + SERVER_MARGIN_MS;
    const lock = () => this.records.lock(transaction, this.lease, { maxExecutionMs });
    if (!(await this.services.events.counted('transaction_lock', lock))) {
      throw new Error(
        'The record could not be locked. Another attempt has taken it over, or "unitOfWork" and "store" use different databases.',
      );
    }
  }

  private async store(transaction: OpenTransaction, final: FinalOutcome): Promise<void> {
    const complete = () => this.records.complete(transaction, this.lease, final);
    if (!(await this.services.events.counted('transaction_complete', complete))) {
      throw new Error(
        'The outcome could not be stored in the transaction: the record is no longer in progress, or the transaction is a different one.',
      );
    }
  }

  private async commit(
    last: (transaction: OpenTransaction) => Promise<void>,
  ): Promise<TransactionEnd | undefined> {
    const end = await this.work.commit(last);
    if (end?.kind === 'failed') this.reportMismatch(end.error);
    return end;
  }

  /** Between two transactions only the lease protects the record, and it may have expired. */
  private async extend(): Promise<boolean> {
    try {
      const { kind } = await extendLease(this.services, this.lease, this.request.options);
      return kind === 'ok' || kind === 'revived';
    } catch {
      return false;
    }
  }

  private rollBack(): Promise<boolean> {
    this.keeper.stop();
    return this.work.rollBack();
  }

  /** Emitted here, as the store does not observe the application's connection. */
  private reportMismatch(error: unknown): void {
    if (!this.work.isReplyMismatch(error)) return;
    this.services.events.emit({ type: 'reply_mismatched', error: asError(error) });
  }

  private async afterFailedCommit(final: FinalOutcome, error: unknown): Promise<Settlement> {
    const { saveTimeoutMs } = this.request.options.storeErrors;
    const reply = await this.writer.commitOutcome(this.records, this.clock.now() + saveTimeoutMs);
    if (reply !== undefined) return this.concludeCommit(reply, final, error);
    this.services.events.emit({ type: 'save_delayed', ...this.subject });
    // After the 503: determines the outcome of the commit, for events and waiting duplicates.
    void this.writer
      .commitOutcome(this.records, this.keeper.hardDeadlineAt)
      .then((late) =>
        this.concludeLate(late, (known) => this.concludeCommit(known, final, error, 'late')),
      );
    return { kind: 'unsaved' };
  }

  private concludeCommit(
    { kind }: ReleaseReply,
    final: FinalOutcome,
    error: unknown,
    when: When = 'in time',
  ): Settlement {
    if (kind === 'not_in_progress') return this.committed(final, when);
    const isConflict = this.isConflict(error);
    const isGone = kind === 'gone';
    if (isConflict) this.conflicted();
    // The outcome of a record that is gone is unknown: it may have expired after a short retention.
    else if (isGone) this.recordLost();
    else this.rolledBack(error);
    if (kind === 'ok' || kind === 'already') this.released();
    this.end(isGone ? 'unsaved' : 'rolled_back');
    return { kind: isConflict ? 'conflict' : 'unsaved' };
  }

  private rolledBack(error: unknown): void {
    const errorType = errorTypeOf(error);
    this.services.events.emit({ type: 'rolled_back', ...this.subject, error, errorType });
  }

  private committed(final: FinalOutcome, when: When = 'in time'): Settlement {
    const { options } = this.request;
    if (isAwaited(options)) {
      const { commandTimeoutMs: timeoutMs } = options.storeErrors;
      this.records.committed(this.lease, { timeoutMs });
    }
    this.completed(final, when === 'late');
    // Only the shutdown waits for the hooks.
    void this.runHooks().then(() => {
      this.endStored(final);
    });
    return OWN;
  }

  protected override end(how: AttemptEnd, stored?: Outcome): void {
    const isOwn = how === 'completed' || how === 'failed' || how === 'recovered';
    const other = this.isUndone ? 'rolled_back' : how;
    super.end(this.isConflicted && !isOwn ? 'conflicted' : other, stored);
  }

  private runHooks(): Promise<void> {
    return this.work.runHooks((error) => {
      const errorType = errorTypeOf(error);
      this.services.events.emit({ type: 'commit_hook_failed', ...this.subject, error, errorType });
    });
  }

  private get leftMs(): number {
    return this.keeper.hardDeadlineAt - this.clock.now();
  }
}
