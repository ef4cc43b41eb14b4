import { LazyPool, loadPg, makeListeningClient } from './own-pool.js';
import { PostgresIdempotencyStore } from './postgres-idempotency-store.js';
import { resolveOwnOptions, type PostgresStoreOptions } from './postgres-store-options.js';

/**
 * Stores records in a table of PostgreSQL ≥ 13. Create the table by running its migrations: `await store.migrate()`, or
 * with a migration tool and the output of `npx nestjs-idempotency migrations`.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: postgresStore({ url: 'postgres://localhost/shop' }) })
 * IdempotencyModule.forRoot({ store: postgresStore({ client: new Pool(), schema: 'idempotency' }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When pg is required but not installed, `open()`
 * throws it.
 */
export function postgresStore(options: PostgresStoreOptions): PostgresIdempotencyStore {
  const { push, preparedStatements, listenUrl } = resolveOwnOptions(options);
  const { client, schema, table, deleteExpired, onDeleted, onDeletionError } = options;
  // A pooler does not support LISTEN.
  const own = client === undefined && preparedStatements ? options : undefined;
  const listenAt = listenUrl === undefined ? own : { url: listenUrl };
  const makeListener = push && listenAt ? () => makeListeningClient(listenAt) : undefined;
  const common = {
    schema,
    table,
    preparedStatements,
    deleteExpired,
    onDeleted,
    onDeletionError,
    makeListener,
    loadDriver: client === undefined || makeListener !== undefined ? () => loadPg() : undefined,
  };
  if (client !== undefined) return new PostgresIdempotencyStore({ ...common, client });
  const pool = new LazyPool(options, preparedStatements);
  return new PostgresIdempotencyStore({ ...common, client: pool, closePool: () => pool.end() });
}

/**
 * Creates or updates the table, in a script that runs before the application starts, as
 * {@link PostgresIdempotencyStore.migrate} does. Any number of processes may run it at once.
 * @example
 * ```ts
 * await migrate({ url: process.env.DATABASE_URL });
 * ```
 * @returns the numbers of the migrations that it ran.
 */
export async function migrate(options: PostgresStoreOptions): Promise<readonly number[]> {
  const store: PostgresIdempotencyStore = postgresStore(options);
  try {
    return await store.migrate();
  } finally {
    await store.close();
  }
}
