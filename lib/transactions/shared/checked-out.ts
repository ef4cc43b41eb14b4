import type { TransactionOptions } from '../../core/transaction/unit-of-work.js';

/** What an application's pool lends for one transaction. */
interface CheckedOut {
  begin(options: TransactionOptions): Promise<void>;
  commit(): Promise<void>;
  /** Never rejects. */
  rollBack(): Promise<void>;
  release(): void | Promise<void>;
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
