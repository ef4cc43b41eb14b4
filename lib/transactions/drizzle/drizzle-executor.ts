import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import {
  isPostgresPool,
  type PostgresConnection,
  type PostgresExecutor,
} from '../shared/connections.js';
import { connectBy, executorOfPool, StatementConnection } from '../shared/executor-connections.js';

/** The part of a Drizzle database that an executor uses: any of `drizzle-orm/node-postgres` or `drizzle-orm/postgres-js`. */
export interface DrizzleClientOwner {
  readonly $client: unknown;
}

/** The part of a client of postgres.js that is used. */
interface PostgresJs {
  reserve(): Promise<ReservedPostgresJs>;
}

interface ReservedPostgresJs {
  unsafe(
    text: string,
    values: unknown[],
    options: { prepare: true },
  ): PromiseLike<readonly object[]>;
  release(): void;
}

/**
 * Lets the store use the connections of Drizzle's driver. Its statements go to the driver itself: Drizzle does not log
 * them. Does not end the driver's pool.
 * - On node-postgres: the `Pool` is that of {@link fromPg}.
 * - On postgres.js: each statement reserves a connection, which is busy until the reply, also a late one. Whether
 *   statements are prepared is up to the option `prepare` of postgres.js.
 *
 * @param db - the result of `drizzle()` of `drizzle-orm/node-postgres`, on a `Pool`, or of `drizzle-orm/postgres-js`. End
 * its pool in `onApplicationShutdown`, after the last outcome was stored.
 * @throws {@link IdempotencyOptionsError} when it is not.
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
  const client: unknown =
    typeof db === 'object' && (db as DrizzleClientOwner | null) !== null ? db.$client : undefined;
  if (isPostgresPool(client)) return executorOfPool('fromDrizzle', client);
  if (isPostgresJs(client)) {
    return { name: 'fromDrizzle', kind: 'held', connect: connectBy(() => checkOut(client)) };
  }
  throw new IdempotencyOptionsError(
    'fromDrizzle: db must be a database of drizzle-orm/node-postgres on a Pool, not a single Client, or of drizzle-orm/postgres-js, and no transaction.',
  );
}

function isPostgresJs(client: unknown): client is PostgresJs {
  return (
    typeof client === 'function' && 'reserve' in client && typeof client.reserve === 'function'
  );
}

async function checkOut(client: PostgresJs): Promise<PostgresConnection> {
  const reserved = await client.reserve();
  return new StatementConnection(
    async (text, values) => reserved.unsafe(text, [...values], { prepare: true }),
    () => {
      reserved.release();
    },
  );
}
