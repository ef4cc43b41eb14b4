import type { Kysely } from 'kysely';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import type { PostgresConnection, PostgresExecutor } from '../shared/connections.js';
import { connectBy, StatementConnection } from '../shared/executor-connections.js';
import { isKysely, queryOf } from './kysely-unit-of-work.js';

/**
 * Lets the store use the connections of Kysely's pool. Does not destroy `db`.
 *
 * Kysely hands out no client of pg: statements have no names, and a connection whose reply is late is busy until the
 * reply. Where you create the pool yourself, `fromPg(pool)` has neither limit. As for `kyselyUnitOfWork`, listen to the
 * `error` of each client of the pool, or a lost connection ends the process.
 *
 * @param db - a `Kysely` with `PostgresDialect`. Destroy it in `onApplicationShutdown`, after the last outcome was stored.
 * @throws {@link IdempotencyOptionsError} when it is not.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRootAsync({
 *   inject: [DB],
 *   useFactory: (db: Kysely<Tables>) => ({ store: postgresStore({ executor: fromKysely(db) }) }),
 * });
 * ```
 */
export function fromKysely<Database>(db: Kysely<Database>): PostgresExecutor {
  if (!isKysely(db)) {
    throw new IdempotencyOptionsError(
      'fromKysely: db must be a Kysely of kysely 0.28 or later, not a transaction.',
    );
  }
  return { name: 'fromKysely', kind: 'held', connect: connectBy(() => checkOut(db)) };
}

/** Kysely holds a connection until the callback is done. */
function checkOut<Database>(db: Kysely<Database>): Promise<PostgresConnection> {
  return new Promise((resolve, reject) => {
    const isDone = db.connection().execute(
      (held) =>
        new Promise<void>((giveBack) => {
          resolve(new StatementConnection(queryOf(held), giveBack));
        }),
    );
    isDone.catch(reject);
  });
}
