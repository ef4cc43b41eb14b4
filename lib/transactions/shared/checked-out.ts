import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';

/** What an application's pool lends for one transaction. */
interface CheckedOut {
  begin(options: TransactionOptions): Promise<void>;
  commit(): Promise<void>;
  /** Never rejects. */
  rollBack(): Promise<void>;
  release(): void | Promise<void>;
}

/** A connection that a pool has lent for one transaction. */
export abstract class CheckedOutOfPool {
  private readonly losing = new AbortController();
  private isReturned = false;
  /** The error of further statements, once set. */
  protected rejection: (() => Error) | undefined;
  /** Whether no transaction is open, so that the connection may be reused. */
  protected isClean = true;

  /** Aborted when the connection is lost. */
  get lost(): AbortSignal {
    return this.losing.signal;
  }

  /** Closes the connection, regardless of running statements. */
  cut(): void {
    this.rejection ??= () => new Error('The connection of the transaction was cut.');
    this.isClean = false;
    this.release();
  }

  /** Returns the connection to the pool, or closes it if a transaction is still open. */
  release(): void {
    if (this.isReturned) return;
    this.isReturned = true;
    this.giveBack(this.isClean && !this.lost.aborted);
  }

  protected get isGivenBack(): boolean {
    return this.isReturned;
  }

  protected abstract giveBack(mayBeReused: boolean): void;

  protected readonly onLost = (): void => {
    this.losing.abort();
  };
}

/** Runs `work` in a transaction that commits unless it throws, and gives the connection back. */
export async function runOn<Result>(
  checkedOut: CheckedOut,
  options: TransactionOptions,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    await checkedOut.begin(options);
    const result = await work();
    await checkedOut.commit();
    return result;
  } catch (error) {
    await checkedOut.rollBack();
    throw error;
  } finally {
    await checkedOut.release();
  }
}
