import type { OptionObserver } from '../options/option-checks.js';
import type { Clock } from '../util/clock.js';
import { NoTransactionError } from '../errors/errors.js';
import { wrongResult } from '../options/option-checks.js';
import { isDoneWithin } from '../util/time.js';
import { DeferredTransaction, type TransactionEnd } from './deferred-transaction.js';
import type { IsolationLevel, OpenTransaction, UnitOfWork } from './unit-of-work.js';

interface OperationTransactionOptions {
  /** For messages. */
  readonly operation: string;
  readonly isolation: IsolationLevel | 'default';
  readonly openWithinMs: number;
  readonly endWithinMs: number;
  /** Is notified of a custom unit of work whose functions fail. */
  readonly observer: OptionObserver;
}

type Predicate = 'isConflict' | 'isInterruption' | 'isReplyMismatch';

/** The transaction of an operation, and the next one when the operation runs again after a conflict. */
export class OperationTransaction {
  private deferred: DeferredTransaction | undefined;
  private hooks: (() => unknown)[] = [];

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly options: OperationTransactionOptions,
    private readonly onConnectionLost: () => void,
    private readonly clock: Clock,
  ) {}

  get handle(): unknown {
    return this.deferred?.transaction.handle;
  }

  isConflict(error: unknown): boolean {
    return this.isTrue('isConflict', error);
  }

  isInterruption(error: unknown): boolean {
    const isLost = this.deferred?.transaction.lost?.aborted === true;
    return isLost || this.isTrue('isInterruption', error);
  }

  isReplyMismatch(error: unknown): boolean {
    return this.isTrue('isReplyMismatch', error);
  }

  /** Opens a transaction, calls `prepare` with it, and forgets the hooks of the one before. Throws what they throw. */
  async open(
    timeoutMs: number,
    prepare: (transaction: OpenTransaction) => Promise<void>,
  ): Promise<void> {
    const { unitOfWork, onConnectionLost } = this;
    const { isolation, openWithinMs } = this.options;
    this.deferred = await DeferredTransaction.open(
      unitOfWork,
      { isolation: isolation === 'default' ? undefined : isolation, timeoutMs },
      prepare,
      openWithinMs,
      this.clock,
    );
    this.hooks = [];
    const { transaction, ended } = this.deferred;
    transaction.lost?.addEventListener('abort', onConnectionLost);
    // The signal may be the connection's, which outlives the transaction.
    void ended.then(() => transaction.lost?.removeEventListener('abort', onConnectionLost));
  }

  /**
   * Commits after `last`. Returns the end, or `undefined` if it is not known in time.
   * @param lastMs - milliseconds that `last` may take, besides those for the end.
   */
  async commit(
    last: (transaction: OpenTransaction) => Promise<void>,
    lastMs = 0,
  ): Promise<TransactionEnd | undefined> {
    const { deferred } = this;
    if (deferred === undefined) return undefined;
    const end = deferred.commit(last);
    return (await this.isEndedInTime(deferred, lastMs)) ? end : undefined;
  }

  /** Rolls back. Returns whether the transaction has ended in time. */
  async rollBack(): Promise<boolean> {
    const { deferred } = this;
    if (deferred === undefined) return true;
    void deferred.rollBack();
    return this.isEndedInTime(deferred);
  }

  onCommitted(hook: () => unknown): void {
    if (this.deferred?.isDecided === true) {
      throw new NoTransactionError(
        `onCommitted() was called in ${this.options.operation} after its transaction had ended. Call it before the operation returns.`,
      );
    }
    this.hooks.push(hook);
  }

  /** Runs the hooks at once. Never rejects. */
  async runHooks(failed: (error: unknown) => void): Promise<void> {
    const run = async (hook: () => unknown) => {
      try {
        await hook();
      } catch (error) {
        failed(error);
      }
    };
    await Promise.all(this.hooks.map(run));
  }

  /** Treats an error of a custom unit of work as false: an attempt that is not ended would keep its key. */
  private isTrue(predicate: Predicate, error: unknown): boolean {
    const option = `unitOfWork.${predicate}`;
    try {
      const result: unknown = this.unitOfWork[predicate](error);
      if (typeof result === 'boolean') return result;
      throw wrongResult(option, 'true or false', result);
    } catch (failure) {
      this.options.observer.optionFailed(option, failure);
      return false;
    }
  }

  /** Closes the connection of a transaction that does not end in time, if possible. */
  private async isEndedInTime(
    { ended, transaction }: DeferredTransaction,
    moreMs = 0,
  ): Promise<boolean> {
    const withinMs = this.options.endWithinMs + moreMs;
    if (await isDoneWithin(withinMs, ended, this.clock)) return true;
    transaction.cut?.();
    return false;
  }
}
