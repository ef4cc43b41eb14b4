import {
  type OpenTransaction,
  type TransactionOptions,
  UnitOfWork,
} from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { workInside } from '../../core/work-inside.js';
import { RunnerLoan } from './runner-loan.js';
import { isTypeOrmDataSource, type TypeOrmDataSource } from './typeorm-data-source.js';

class TypeOrmUnitOfWork<Manager extends object> extends UnitOfWork<Manager> {
  constructor(private readonly dataSource: TypeOrmDataSource<Manager>) {
    super();
    if (!isTypeOrmDataSource(dataSource)) {
      throw new IdempotencyOptionsError(
        'typeOrmUnitOfWork: the data source must be a DataSource of TypeORM, with type "postgres".',
      );
    }
  }

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: OpenTransaction<Manager>) => Promise<Result>,
  ): Promise<Result> {
    const loan = await RunnerLoan.take(this.dataSource.createQueryRunner());
    const query: OpenTransaction['query'] = (text, values) => loan.query(text, values);
    try {
      await loan.begin(options);
      const { manager: handle, lost } = loan;
      const result = await workInside({ handle, query, lost, cut: () => loan.cut() }, work);
      await loan.commit();
      return result;
    } catch (error) {
      await loan.rollBack();
      throw error;
    } finally {
      await loan.giveBack();
    }
  }
}

/**
 * Transactions of TypeORM: in the transactional mode the business writes and the record commit together. Handlers get
 * the `EntityManager` of their transaction. It closes nothing; the data source stays the application's.
 *
 * @param dataSource - a `DataSource` of TypeORM on pg, to the database that the records are in. Each request on a
 * transactional route holds one of its connections until it is answered. Where it replicates, the primary's.
 * @throws {@link IdempotencyOptionsError} when it is no such data source.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [DataSource],
 *   useFactory: (dataSource: DataSource) => ({
 *     store: postgresStore({ url }),
 *     unitOfWork: typeOrmUnitOfWork(dataSource),
 *   }),
 * });
 * ```
 */
export function typeOrmUnitOfWork<Manager extends object>(
  dataSource: TypeOrmDataSource<Manager>,
): UnitOfWork<Manager> {
  return new TypeOrmUnitOfWork(dataSource);
}
