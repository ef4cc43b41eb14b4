export type { DeleteExpired, DeletionPace, DeletionReport } from './delete-expired.js';
export type { DeletionInterval, DeletionOptions } from './deletion-options.js';
export { migrate } from './migrate.js';
export type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from './postgres-client.js';
export {
  PostgresIdempotencyStore,
  type PostgresIdempotencyStoreOptions,
} from './postgres-idempotency-store.js';
export { postgresStore } from './postgres-store.js';
export type {
  OwnPoolOptions,
  PostgresConnectionOptions,
  PostgresStoreOptions,
  UserPoolOptions,
} from './postgres-store-options.js';
export type { TableOptions } from './table-name.js';
