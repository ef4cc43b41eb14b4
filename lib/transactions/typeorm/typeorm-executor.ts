import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import type { PostgresConnection, PostgresExecutor } from '../shared/connections.js';
import { connectBy, DriverConnection } from '../shared/executor-connections.js';
import { isTypeOrmDataSource, type TypeOrmDataSource } from './typeorm-unit-of-work.js';

/**
 * Lets the store use the connections of TypeORM's pool, with replication those of the primary. Its statements go to the
 * client of pg itself: TypeORM neither logs them nor calls subscribers. Does not destroy the data source.
 *
 * @param dataSource - a `DataSource` of TypeORM on pg. Initialise it before the store opens, and destroy it in
 * `onApplicationShutdown`, after the last outcome was stored. `extra: { connectionTimeoutMillis }` bounds the wait for a
 * connection; the store's own wait is bounded in any case.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [DataSource],
 *   useFactory: (dataSource: DataSource) => ({
 *     store: postgresStore({ executor: fromTypeOrm(dataSource) }),
 *     unitOfWork: typeOrmUnitOfWork(dataSource),
 *   }),
 * });
 * ```
 */
export function fromTypeOrm(dataSource: TypeOrmDataSource<unknown>): PostgresExecutor {
  if (!isTypeOrmDataSource(dataSource)) {
    throw new IdempotencyOptionsError(
      'fromTypeOrm: the data source must be a DataSource of TypeORM with type "postgres".',
    );
  }
  return {
    name: 'fromTypeOrm',
    kind: 'driver',
    connect: connectBy(() => checkOut(dataSource)),
  };
}

async function checkOut(dataSource: TypeOrmDataSource<unknown>): Promise<PostgresConnection> {
  const runner = dataSource.createQueryRunner();
  const client = await runner.connect();
  return new DriverConnection(client, () => {
    // The pool drops a client that was ended.
    runner.release().catch(() => undefined);
  });
}
