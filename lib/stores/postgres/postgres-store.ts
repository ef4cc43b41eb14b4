import { LazyPool, loadPg, makeListeningClient, type OwnClient } from './own-pool.js';
import { PostgresIdempotencyStore } from './postgres-idempotency-store.js';
import { resolveOwnOptions, type PostgresStoreOptions } from './postgres-store-options.js';

/**
 * Stores records in a table of PostgreSQL ≥ 13. Create the table by running its migrations: `await store.migrate()`,
 * `npx nestjs-idempotency migrate`, or a migration tool and the output of `npx nestjs-idempotency sql`.
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: postgresStore({ url: 'postgres://localhost/shop' }) })
 * IdempotencyModule.forRoot({ store: postgresStore({ executor: fromPg(pool), schema: 'idempotency' }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When pg is required but not installed, `open()`
 * throws it.
 */
export function postgresStore(options: PostgresStoreOptions): PostgresIdempotencyStore {
  const { push, preparedStatements } = resolveOwnOptions(options);
  const { executor, schema, table, journal, deleteExpired, onDeleted, onDeletionError } = options;
  const pool = executor ?? new LazyPool(options, preparedStatements);
  const own = pool instanceof LazyPool ? pool : undefined;
  const makeListener = push ? listenerOf(options, preparedStatements, own) : undefined;
  return new PostgresIdempotencyStore({
    schema,
    table,
    preparedStatements,
    journal,
    deleteExpired,
    onDeleted,
    onDeletionError,
    client: pool,
    closePool: own && (() => own.end()),
    makeListener,
    lacksListenUrl: push && executor !== undefined && makeListener === undefined,
    loadDriver: own !== undefined || makeListener !== undefined ? () => loadPg() : undefined,
  });
}

/** A pooler does not support LISTEN. */
function listenerOf(
  { listenUrl, ...options }: PostgresStoreOptions,
  preparedStatements: boolean,
  pool: LazyPool | undefined,
): (() => Promise<OwnClient>) | undefined {
  if (listenUrl !== undefined) return () => makeListeningClient({ url: listenUrl });
  if (pool === undefined || !preparedStatements) return undefined;
  return () => {
    if (pool.isPooler) return Promise.reject(new Error('The server is a pooler.'));
    return makeListeningClient(options);
  };
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
