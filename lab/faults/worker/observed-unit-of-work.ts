import {
  UnitOfWork,
  type OpenTransaction,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import type { Mishaps } from './mishaps.js';

/** Between the library and the application's transactions: holds the points around their ends. */
export class ObservedUnitOfWork<Handle> extends UnitOfWork<Handle> {
  constructor(
    private readonly real: UnitOfWork<Handle>,
    private readonly mishaps: Mishaps,
  ) {
    super();
  }

  override async run<Result>(
    options: TransactionOptions,
    work: (transaction: OpenTransaction<Handle>) => Promise<Result>,
  ): Promise<Result> {
    const result = await this.real.run(options, async (transaction) => {
      const done = await work(transaction);
      const cut = () => transaction.cut?.();
      await this.mishaps.at('before_commit', cut);
      // COMMIT is written to the socket as soon as this resolves, and its reply read in a later iteration of the event
      // loop.
      setImmediate(() => void this.mishaps.at('in_commit', cut));
      return done;
    });
    await this.mishaps.at('after_commit');
    return result;
  }

  override isConflict(error: unknown): boolean {
    return this.real.isConflict(error);
  }

  override isInterruption(error: unknown): boolean {
    return this.real.isInterruption(error);
  }

  override isReplyMismatch(error: unknown): boolean {
    return this.real.isReplyMismatch(error);
  }
}
