import {
  PostgresUnitOfWork,
  type SqlTransaction,
  type TransactionOptions,
} from 'nestjs-idempotency/transactions';
import type { MyDatabase, MyTransaction } from './my-database.js';

// #region unit
export class MyUnitOfWork extends PostgresUnitOfWork<MyTransaction> {
  constructor(private readonly database: MyDatabase) {
    super();
  }

  run<Result>(
    { isolation }: TransactionOptions,
    work: (transaction: SqlTransaction<MyTransaction>) => Promise<Result>,
  ): Promise<Result> {
    return this.database.transaction({ isolation }, (handle) =>
      work({ handle, query: (text, values) => handle.rawQuery(text, values) }),
    );
  }
}
// #endregion
