import { PostgresIdempotencyStore } from './postgres-idempotency-store.js';
import { postgresStore } from './postgres-store.js';
import type { PostgresStoreOptions } from './postgres-store-options.js';

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
