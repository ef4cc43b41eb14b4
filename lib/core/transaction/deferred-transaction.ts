import type { Clock } from '../util/clock.js';
import type { OpenTransaction, TransactionOptions, UnitOfWork } from './unit-of-work.js';

export type TransactionEnd =
  | { readonly kind: 'committed' }
  /** With `isCommitSent`, it may have been committed nevertheless. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly isCommitSent: boolean };

type Decision = 'roll back' | ((transaction: OpenTransaction) => Promise<void>);

class RolledBackError extends Error {
  override readonly name = 'RolledBackError';
}

/** A transaction whose commit is decided outside of the unit of work's callback. */
export class DeferredTransaction {
  /** Resolves when the transaction has ended, for any reason. */
  readonly ended: Promise<TransactionEnd>;
  private decided = false;

  private constructor(
    readonly transaction: OpenTransaction,
    ended: () => Promise<TransactionEnd>,
    private readonly decide: (decision: Decision) => void,
  ) {
    this.ended = ended();
  }

  /**
   * Opens a transaction and calls `prepare` with it. `withinMs` includes the wait for a connection. Throws what
   * `prepare` or the unit of work throws, or an error on timeout; the transaction is then rolled back.
   */
  static open(
    unitOfWork: UnitOfWork,
    options: TransactionOptions,
    prepare: (transaction: OpenTransaction) => Promise<void>,
    withinMs: number,
    clock: Clock,
  ): Promise<DeferredTransaction> {
    return new Promise((resolve, reject) => {
      let opened: OpenTransaction | undefined;
      let isTimedOut = false;
      let isCommitSent = false;
      const timeout = () => {
        isTimedOut = true;
        // Its connection may have stalled.
        opened?.cut?.();
        reject(
          new RolledBackError(
            'It was not open in time. Check whether the pool has enough connections.',
          ),
        );
      };
      const timeoutTimer = clock.setTimeout(timeout, withinMs, undefined);
      const throwIfTimedOut = () => {
        if (isTimedOut) throw new RolledBackError('It was not open in time.');
      };
      const whole = unitOfWork.run(options, async (transaction) => {
        // A request that has timed out must not keep the connection from those that still wait.
        throwIfTimedOut();
        opened = transaction;
        await prepare(transaction);
        throwIfTimedOut();
        clock.clearTimeout(timeoutTimer);
        const decision = await new Promise<Decision>((decide) => {
          resolve(new DeferredTransaction(transaction, () => ended, decide));
        });
        if (decision === 'roll back') throw new RolledBackError('The transaction was rolled back.');
        await decision(transaction);
        isCommitSent = true;
      });
      const ended = whole.then(
        (): TransactionEnd => ({ kind: 'committed' }),
        (error: unknown): TransactionEnd => {
          clock.clearTimeout(timeoutTimer);
          // Without effect once the transaction is open.
          reject(error instanceof Error ? error : new Error('No transaction.', { cause: error }));
          return { kind: 'failed', error, isCommitSent };
        },
      );
    });
  }

  /** Commits after `last`, unless the end is already decided. If `last` throws, the transaction is rolled back. */
  commit(last: (transaction: OpenTransaction) => Promise<void>): Promise<TransactionEnd> {
    this.end(last);
    return this.ended;
  }

  /** Rolls back, unless the end is already decided. */
  rollBack(): Promise<TransactionEnd> {
    this.end('roll back');
    return this.ended;
  }

  /** Whether the transaction has ended or is ending. */
  get isDecided(): boolean {
    return this.decided;
  }

  private end(decision: Decision): void {
    this.decided = true;
    this.decide(decision);
  }
}
