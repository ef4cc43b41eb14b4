import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { callbackPoolOf, type MysqlExecutor, type MysqlPool } from '../shared/mysql-connections.js';

/**
 * Lets the store use the application's pool of mysql2. Each statement checks out a connection for as long as it takes, a
 * millisecond or so. Does not end the pool, and changes no setting of it. End it in `onApplicationShutdown`, not in
 * `onModuleDestroy`: Nest calls the latter before the library waits for running operations, whose outcomes could then not
 * be stored.
 *
 * @param pool - of `mysql2` or `mysql2/promise`, also one that Drizzle or Kysely uses.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [POOL],
 *   useFactory: (pool: Pool) => ({ store: mysqlStore({ executor: fromMysql2(pool) }) }),
 * });
 * ```
 */
export function fromMysql2(pool: MysqlPool): MysqlExecutor {
  const connections = callbackPoolOf(pool);
  if (connections === undefined) {
    throw new IdempotencyOptionsError(
      'fromMysql2: the pool must be a pool of mysql2 or mysql2/promise, not a single connection.',
    );
  }
  return {
    name: 'fromMysql2',
    // Not bound: tools of observation may replace the method later.
    getConnection: (use) => connections.getConnection(use),
  };
}
