import type { OpenTransaction, TransactionOptions, UnitOfWork } from './unit-of-work.js';

/** How a transaction ended. */
export type TransactionEnd =
  | { readonly kind: 'committed' }
  /** `isCommitSent`: it may have been committed all the same. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly isCommitSent: boolean };

type Decision = 'roll back' | ((transaction: OpenTransaction) => Promise<void>);

/** What a transaction is rolled back with. */
class RolledBackError extends Error {
  override readonly name = 'RolledBackError';
}

/** A transaction whose end is decided from outside of the callback that a unit of work runs. */
export class DeferredTransaction {
  /** Resolves with the end, whatever brings it about. */
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
   * Opens a transaction and calls `prepare` with it.
   *
   * @param withinMs - how long that may take, the wait for a connection included.
   * @throws what `prepare` or the unit of work throws, or that it took too long: then it is rolled back.
   */
  static open(
    unitOfWork: UnitOfWork,
    options: TransactionOptions,
    prepare: (transaction: OpenTransaction) => Promise<void>,
    withinMs: number,
  ): Promise<DeferredTransaction> {
    return new Promise((resolve, reject) => {
      let opened: OpenTransaction | undefined;
      let isTimedOut = false;
      let isCommitSent = false;
      const timeoutTimer = setTimeout(() => {
        isTimedOut = true;
        // Its connection may have gone silent.
        opened?.cut?.();
        reject(
          new RolledBackError('It was not open in time: the pool may have too few connections.'),
        );
      }, withinMs);
      const throwIfTimedOut = () => {
        if (isTimedOut) throw new RolledBackError('It was open too late.');
      };
      const whole = unitOfWork.run(options, async (transaction) => {
        // Those who gave up long ago must not keep the connection from those who still wait.
        throwIfTimedOut();
        opened = transaction;
        await prepare(transaction);
        throwIfTimedOut();
        clearTimeout(timeoutTimer);
        const decision = await new Promise<Decision>((decide) => {
          resolve(new DeferredTransaction(transaction, () => ended, decide));
        });
        if (decision === 'roll back') throw new RolledBackError('It was rolled back.');
        await decision(transaction);
        isCommitSent = true;
      });
      const ended = whole.then(
        (): TransactionEnd => ({ kind: 'committed' }),
        (error: unknown): TransactionEnd => {
          clearTimeout(timeoutTimer);
          // Heard only where it was not open yet.
          reject(error instanceof Error ? error : new Error('No transaction.', { cause: error }));
          return { kind: 'failed', error, isCommitSent };
        },
      );
    });
  }

  /**
   * Commits, unless the end was decided before.
   *
   * @param last - what is to be written before; if it throws, everything is rolled back.
   */
  commit(last: (transaction: OpenTransaction) => Promise<void>): Promise<TransactionEnd> {
    this.end(last);
    return this.ended;
  }

  /** Rolls back, unless the end was decided before. */
  rollBack(): Promise<TransactionEnd> {
    this.end('roll back');
    return this.ended;
  }

  /** Whether it is over, or about to be. */
  get isDecided(): boolean {
    return this.decided;
  }

  private end(decision: Decision): void {
    this.decided = true;
    this.decide(decision);
  }
}
