import type {
  IsolationLevel,
  TransactionOptions,
  TransactionValue,
} from '../../core/transaction/unit-of-work.js';
import { beginWithin } from '../pg/begin-within.js';
import type {
  TypeOrmConnection,
  TypeOrmIsolationLevel,
  TypeOrmQueryRunner,
} from './typeorm-data-source.js';

const LEVELS: Readonly<Record<IsolationLevel, TypeOrmIsolationLevel>> = {
  'read committed': 'READ COMMITTED',
  'repeatable read': 'REPEATABLE READ',
  serializable: 'SERIALIZABLE',
};

/** A query runner with its connection, borrowed for one transaction. */
export class RunnerLoan<Manager> {
  private readonly losing = new AbortController();
  private isReturned = false;

  private constructor(
    private readonly runner: TypeOrmQueryRunner<Manager>,
    private readonly connection: TypeOrmConnection,
  ) {
    connection.on('error', this.onLost);
    connection.on('end', this.onLost);
  }

  static async take<Manager>(runner: TypeOrmQueryRunner<Manager>): Promise<RunnerLoan<Manager>> {
    return new RunnerLoan(runner, await runner.connect());
  }

  get manager(): Manager {
    return this.runner.manager;
  }

  /** Aborted when the connection is lost. */
  get lost(): AbortSignal {
    return this.losing.signal;
  }

  /** @throws whatever TypeORM throws, or that there was no answer in time: then the connection is cut. */
  begin({ isolation, timeoutMs }: TransactionOptions): Promise<void> {
    const begun = this.runner.startTransaction(isolation && LEVELS[isolation]);
    return beginWithin(timeoutMs, begun, () => this.cut());
  }

  async query(text: string, values: readonly TransactionValue[]): Promise<readonly object[]> {
    // Without the third argument an UPDATE … RETURNING answers with something else than its rows.
    const { records } = await this.runner.query(text, [...values], true);
    return records;
  }

  async commit(): Promise<void> {
    await this.runner.commitTransaction();
    // TypeORM has then ended a nested transaction, in the belief that it was this one's turn.
    if (this.runner.isTransactionActive) {
      throw new Error(
        'A nested transaction was open when the work was done. A handler has to await all that it writes before it returns.',
      );
    }
  }

  /** Never rejects: where it fails, the connection goes, and the transaction with it. */
  async rollBack(): Promise<void> {
    if (!this.runner.isTransactionActive) return;
    await this.runner.rollbackTransaction().catch(() => undefined);
    // Its type does not know that the call has changed it.
    if (this.runner.isTransactionActive as boolean) this.cut();
  }

  /** Ends the connection, whatever is running on it: a pool does not take it back then. */
  cut(): void {
    if (!this.isReturned) this.connection.end().catch(() => undefined);
  }

  async giveBack(): Promise<void> {
    this.isReturned = true;
    try {
      await this.runner.release();
    } finally {
      this.connection.off('error', this.onLost);
      this.connection.off('end', this.onLost);
    }
  }

  private readonly onLost = () => this.losing.abort();
}
