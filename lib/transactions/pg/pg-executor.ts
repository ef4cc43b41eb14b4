import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { isPostgresPool, type PostgresExecutor, type PostgresPool } from '../shared/connections.js';
import { executorOfPool } from '../shared/executor-connections.js';

/**
 * Lets the store use the application's pool of pg. Each statement checks out a connection for as long as it takes, a
 * millisecond or so. Does not end the pool, and changes no setting of it.
 * - Set `connectionTimeoutMillis` on it, and listen to its `error` event, without which pg ends the process when an idle
 *   connection fails.
 * - End it in `onApplicationShutdown`, not in `onModuleDestroy`: Nest calls the latter before the library waits for
 *   running operations, whose outcomes could then not be stored.
 *
 * @param pool - a `Pool` of pg 8, also one that Prisma, Drizzle, Kysely or Knex uses.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [POOL],
 *   useFactory: (pool: Pool) => ({ store: postgresStore({ executor: fromPg(pool) }) }),
 * });
 * ```
 */
export function fromPg(pool: PostgresPool): PostgresExecutor {
  if (!isPostgresPool(pool)) {
    throw new IdempotencyOptionsError(
      'fromPg: the pool must be a Pool of pg 8, not a single Client.',
    );
  }
  return executorOfPool('fromPg', pool);
}
