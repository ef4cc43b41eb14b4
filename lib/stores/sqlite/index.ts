export { SqliteIdempotencyStore, sqliteStore } from './sqlite-idempotency-store.js';
export type { SqliteDeletion, SqliteStoreOptions } from './sqlite-store-options.js';
