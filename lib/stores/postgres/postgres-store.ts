import { LazyPool, loadPg, makeListeningClient, type ServerAddress } from './own-pool.js';
import { PostgresIdempotencyStore } from './postgres-idempotency-store.js';
import { checkPostgresStoreOptions, type PostgresStoreOptions } from './postgres-store-options.js';

/**
 * Keeps records in a table of PostgreSQL ≥ 13. The table is made by its migrations, which are run explicitly:
 * `await store.migrate()`, or `npx nestjs-idempotency migrations` for a tool of one's own.
 *
 * @example
 * ```ts
 * IdempotencyModule.forRoot({ store: postgresStore({ url: 'postgres://localhost/shop' }) })
 * IdempotencyModule.forRoot({ store: postgresStore({ client: new Pool(), schema: 'idempotency' }) })
 * ```
 * @throws {@link IdempotencyOptionsError} when an option cannot work; where pg is needed and not installed, `open()`
 * throws it.
 */
export function postgresStore(options: PostgresStoreOptions): PostgresIdempotencyStore {
  checkPostgresStoreOptions({ ...options });
  const { client, schema, table, preparedStatements = true } = options;
  const { deleteExpired, onDeleted, onDeletionError } = options;
  const listenAt = addressForListening(options);
  const common = {
    schema,
    table,
    preparedStatements,
    deleteExpired,
    onDeleted,
    onDeletionError,
    makeListener: listenAt && (() => makeListeningClient(listenAt)),
    loadDriver: client === undefined || listenAt !== undefined ? () => loadPg() : undefined,
  };
  if (client !== undefined) return new PostgresIdempotencyStore({ ...common, client });
  const pool = new LazyPool(options, preparedStatements);
  return new PostgresIdempotencyStore({ ...common, client: pool, closePool: () => pool.end() });
}

function addressForListening(options: PostgresStoreOptions): ServerAddress | undefined {
  const { push = true, listenUrl, client, preparedStatements = true } = options;
  if (!push) return undefined;
  if (listenUrl !== undefined) return { url: listenUrl };
  return client === undefined && preparedStatements ? options : undefined;
}

/**
 * Creates the table of the records, or brings it up to this version, for a script that is run before the
 * application starts. Any number of processes may do so at once. See {@link PostgresIdempotencyStore.migrate}.
 *
 * @example
 * ```ts
 * await migrate({ url: process.env.DATABASE_URL });
 * ```
 * @returns the numbers of the migrations that were missing and have been run.
 */
export async function migrate(options: PostgresStoreOptions): Promise<readonly number[]> {
  const store: PostgresIdempotencyStore = postgresStore(options);
  try {
    return await store.migrate();
  } finally {
    await store.close();
  }
}
