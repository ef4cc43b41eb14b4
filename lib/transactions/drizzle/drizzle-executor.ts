import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { isPostgresPool, type PostgresExecutor } from '../shared/connections.js';
import { executorOfPool } from '../shared/executor-connections.js';

/** The part of a Drizzle database that an executor uses. */
export interface DrizzleClientOwner {
  /** The `Pool` of pg. */
  readonly $client: unknown;
}

/**
 * Lets the store use the connections of Drizzle's pool, as `fromPg(db.$client)`: Drizzle does not log its statements.
 * Does not end the pool.
 *
 * @param db - the result of `drizzle()` of `drizzle-orm/node-postgres`, on a `Pool` of pg 8. End the pool in
 * `onApplicationShutdown`, after the last outcome was stored.
 * @throws {@link IdempotencyOptionsError} when it is not. postgres.js is refused: it puts a lent connection that was lost
 * back among those that work.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [DB],
 *   useFactory: (db: Db) => ({ store: postgresStore({ executor: fromDrizzle(db) }) }),
 * });
 * ```
 */
export function fromDrizzle(db: DrizzleClientOwner): PostgresExecutor {
  const client = clientOf(db);
  if (isPostgresPool(client)) return executorOfPool('fromDrizzle', client);
  throw new IdempotencyOptionsError(
    isPostgresJs(client)
      ? 'fromDrizzle: db is on postgres.js, which puts a lent connection that was lost back among those that work. Pass { url } to the store instead of an executor, or use drizzle-orm/node-postgres.'
      : 'fromDrizzle: db must be a database of drizzle-orm/node-postgres on a Pool of pg 8, not on a single Client, and no transaction.',
  );
}

function clientOf(db: unknown): unknown {
  return typeof db === 'object' && db !== null && '$client' in db ? db.$client : undefined;
}

function isPostgresJs(client: unknown): boolean {
  return typeof client === 'function' && 'reserve' in client;
}
