import type { AttemptTransaction, FinalOutcome, Settlement } from '../operation/attempt.js';
import type { ReleaseReply } from '../record/commands.js';
import type { TransactionalRecords } from '../store/transactional-records.js';
import type { TransactionEnd } from '../transaction/deferred-transaction.js';
import { OperationTransaction } from '../transaction/operation-transaction.js';
import type { OpenTransaction, UnitOfWork } from '../transaction/unit-of-work.js';
import { asError, errorTypeOf, StoreUnavailableError } from '../errors/errors.js';
import { jitteredPause } from '../util/time.js';
import { LeasedEnding, OWN, type AttemptEnding, type EngineAttempt, type When } from './attempt.js';
import { extendLease } from './lease-keeper.js';
import { commitOutcome, isUnlocked } from './outcome-writer.js';
import { packedIn } from './packed-outcomes.js';

/** The timeout for opening the transaction, as a part of the lease: the record is not locked before. */
const OPENING_PART = 2 / 3;

/** How long after the hard deadline the server ends a transaction that this process has not ended. */
const SERVER_MARGIN_MS = 1_000;

export interface Transactions {
  readonly unitOfWork: UnitOfWork;
  readonly records: TransactionalRecords;
}

/**
 * Commits the outcome together with the operation's writes. The transaction's lock on the record serves as the lease: it
 * needs no heartbeat, and ends with the transaction or the process. An outcome that is not committed with the writes is
 * stored after the transaction's end, like that of any attempt.
 */
export class TransactionalEnding implements AttemptEnding, AttemptTransaction {
  readonly protection = 'transaction';
  readonly transaction = this;
  private readonly afterwards: LeasedEnding;
  private readonly records: TransactionalRecords;
  private readonly work: OperationTransaction;
  openTransaction: OpenTransaction | undefined;

  constructor(
    private readonly attempt: EngineAttempt,
    { unitOfWork, records }: Transactions,
  ) {
    const { operation, options } = attempt.request;
    this.afterwards = new LeasedEnding(attempt);
    this.records = records;
    this.work = new OperationTransaction(
      unitOfWork,
      {
        operation,
        isolation: options.transaction === false ? 'default' : options.transaction.isolation,
        openWithinMs: options.lease.duration * OPENING_PART,
        endWithinMs: options.storeErrors.saveTimeout,
        observer: attempt,
      },
      () => {
        attempt.keeper.lose('connection_lost');
      },
      attempt.clock,
    );
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
    this.attempt.endsAs = 'conflicted';
    this.attempt.emit('conflicted');
  }

  undone(): void {
    this.attempt.endsAs ??= 'rolled_back';
    this.rolledBack(undefined);
  }

  onCommitted(hook: () => unknown): void {
    this.work.onCommitted(hook);
  }

  giveUp(): void {
    void this.rollBack();
  }

  /** There may be no transaction, or another attempt has the record. */
  async start(): Promise<Error | undefined> {
    const { keeper, clock } = this.attempt;
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
    return keeper.start(clock.now());
  }

  async restart(pauseMs: number): Promise<boolean> {
    const { attempt } = this;
    const { keeper, clock } = attempt;
    if (keeper.isLost() || !(await this.rollBack()) || !(await this.extend())) return false;
    await jitteredPause(pauseMs, clock);
    const isOpen = !keeper.isLost() && (await this.start()) === undefined;
    if (isOpen) attempt.endsAs = undefined;
    return isOpen;
  }

  async complete(final: FinalOutcome): Promise<Settlement> {
    if (final.undo === true) {
      await this.rollBack();
      return this.afterwards.complete(final);
    }
    return this.commitWith(final);
  }

  completeWithBlob(final: FinalOutcome): Promise<Settlement> {
    const { attempt } = this;
    const { offload } = attempt.request.options.outcome;
    return this.commitWith(
      final,
      (transaction) => packedIn(attempt, final, transaction),
      offload === false ? 0 : offload.putTimeout,
    );
  }

  async commitUnkept(): Promise<Settlement> {
    const end = await this.commit(() => Promise.resolve());
    if (end?.kind === 'committed') {
      void this.runHooks();
      await this.afterwards.release();
      return OWN;
    }
    await this.release();
    const isConflict = end !== undefined && this.isConflict(end.error);
    return { kind: isConflict ? 'conflict' : 'unsaved' };
  }

  async release(): Promise<void> {
    const { attempt, records } = this;
    const giveUpAt = attempt.clock.now() + attempt.request.options.storeErrors.saveTimeout;
    if ((await this.rollBack()) || (await isUnlocked(attempt, records, giveUpAt))) {
      await this.afterwards.release();
    } else {
      // The key becomes free when the server detects the closed connection.
      attempt.releaseFailed();
    }
  }

  leaseLost(): void {
    const { attempt } = this;
    attempt.services.attempts.lost(attempt);
    // The server ends it as well, in case this process cannot.
    void this.rollBack();
  }

  private async lock(transaction: OpenTransaction): Promise<void> {
    const { services, lease } = this.attempt;
    const maxExecutionMs = Math.max(0, Math.ceil(this.leftMs)) + SERVER_MARGIN_MS;
    const lock = () => this.records.lock(transaction, lease, { maxExecutionMs });
    this.openTransaction = transaction;
    if (!(await services.events.counted('transaction_lock', lock))) {
      throw new Error(
        'The record could not be locked. Another attempt has taken it over, or "unitOfWork" and "store" use different databases.',
      );
    }
  }

  /** Stores the outcome in the transaction. @returns whether it has to be stored apart. */
  private async isApart(transaction: OpenTransaction, final: FinalOutcome): Promise<boolean> {
    const { services, lease, noteOfEnd: note } = this.attempt;
    const command = { ...final, note };
    const complete = () => this.records.complete(transaction, lease, command);
    const completion = await services.events.counted('transaction_complete', complete);
    if (completion !== 'lost') return completion === 'committed';
    throw new Error(
      'The outcome could not be stored in the transaction: the operation has rolled it back, or the record is no longer in progress.',
    );
  }

  private async commit(
    last: (transaction: OpenTransaction) => Promise<void>,
    lastMs = 0,
  ): Promise<TransactionEnd | undefined> {
    const end = await this.work.commit(last, lastMs);
    if (end?.kind === 'failed') this.reportMismatch(end.error);
    return end;
  }

  /** Between two transactions only the lease protects the record, and it may have expired. */
  private async extend(): Promise<boolean> {
    const { services, lease, request } = this.attempt;
    try {
      const { kind } = await extendLease(services, lease, request.options);
      return kind === 'ok' || kind === 'revived';
    } catch {
      return false;
    }
  }

  private rollBack(): Promise<boolean> {
    this.attempt.keeper.stop();
    return this.work.rollBack();
  }

  /** Emitted here, as the store does not observe the application's connection. */
  private reportMismatch(error: unknown): void {
    if (!this.work.isReplyMismatch(error)) return;
    this.attempt.services.events.emit({ type: 'reply_mismatched', error: asError(error) });
  }

  /** @param pack - what the outcome becomes in the transaction, which may take `packMs` milliseconds. */
  private async commitWith(
    final: FinalOutcome,
    pack?: (transaction: OpenTransaction) => Promise<FinalOutcome>,
    packMs = 0,
  ): Promise<Settlement> {
    let stored = final;
    let isApart = false as boolean;
    const end = await this.commit(async (transaction) => {
      if (pack !== undefined) stored = await pack(transaction);
      isApart = await this.isApart(transaction, stored);
    }, packMs);
    if (isApart) return this.committedApart(stored, end);
    return end?.kind === 'committed'
      ? this.committed(stored)
      : this.afterFailedCommit(stored, end?.error);
  }

  /**
   * The operation has committed its own transaction: a release would have a retry run it again. Its outcome is stored
   * after the rest of its writes, as without transactions.
   */
  private async committedApart(
    final: FinalOutcome,
    end: TransactionEnd | undefined,
  ): Promise<Settlement> {
    const { attempt } = this;
    attempt.emit('committed_apart');
    if (end?.kind === 'committed') {
      void this.runHooks();
      return this.afterwards.complete(final);
    }
    // Its last writes may be undone, its first ones not: what is true of it, an operator has to say.
    attempt.unsaved();
    return { kind: 'unsaved' };
  }

  private async afterFailedCommit(final: FinalOutcome, error: unknown): Promise<Settlement> {
    const { attempt, records } = this;
    const { saveTimeout: saveTimeoutMs } = attempt.request.options.storeErrors;
    const reply = await commitOutcome(attempt, records, attempt.clock.now() + saveTimeoutMs);
    if (reply !== undefined) return this.concludeCommit(reply, final, error);
    attempt.emit('save_delayed');
    // After the 503: determines the outcome of the commit, for events and waiting duplicates.
    void commitOutcome(attempt, records, attempt.keeper.hardDeadlineAt).then((late) => {
      if (late === undefined) attempt.unsaved();
      else this.concludeCommit(late, final, error, 'late');
    });
    return { kind: 'unsaved' };
  }

  private concludeCommit(
    { kind }: ReleaseReply,
    final: FinalOutcome,
    error: unknown,
    when: When = 'in time',
  ): Settlement {
    if (kind === 'not_in_progress') return this.committed(final, when);
    const { attempt } = this;
    const isConflict = this.isConflict(error);
    const isGone = kind === 'gone';
    if (isConflict) this.conflicted();
    // The outcome of a record that is gone is unknown: it may have expired after a short retention.
    else if (isGone) attempt.recordLost();
    else this.rolledBack(error);
    if (kind === 'ok' || kind === 'already') attempt.released();
    attempt.end(isGone ? 'unsaved' : 'rolled_back');
    return { kind: isConflict ? 'conflict' : 'unsaved' };
  }

  private rolledBack(error: unknown): void {
    const { services, subject } = this.attempt;
    const errorType = errorTypeOf(error);
    services.events.emit({ type: 'rolled_back', ...subject, error, errorType });
  }

  private committed(final: FinalOutcome, when: When = 'in time'): Settlement {
    const { attempt } = this;
    const { options } = attempt.request;
    if (options.duplicates.mode === 'wait') {
      const { commandTimeout: timeoutMs } = options.storeErrors;
      this.records.committed(attempt.lease, { timeoutMs });
    }
    attempt.completed(final, when === 'late');
    // Only the shutdown waits for the hooks.
    void this.runHooks().then(() => {
      attempt.endStored(final);
    });
    return OWN;
  }

  private runHooks(): Promise<void> {
    const { services, subject } = this.attempt;
    return this.work.runHooks((error) => {
      const errorType = errorTypeOf(error);
      services.events.emit({ type: 'commit_hook_failed', ...subject, error, errorType });
    });
  }

  private get leftMs(): number {
    const { keeper, clock } = this.attempt;
    return keeper.hardDeadlineAt - clock.now();
  }
}
