export type {
  DeleteExpired,
  DeletionInterval,
  DeletionOptions,
  DeletionPace,
  DeletionReport,
} from './cleanup/delete-expired.js';
export {
  postgresBlobs,
  type BlobTableOptions,
  type PostgresBlobs,
  type PostgresBlobsOptions,
} from './postgres-blobs.js';
export { migrate, postgresStore } from './postgres-store.js';
export type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from './connection/postgres-client.js';
export {
  PostgresIdempotencyStore,
  type PostgresIdempotencyStoreOptions,
} from './postgres-idempotency-store.js';
export type {
  OwnPoolOptions,
  PostgresConnectionOptions,
  PostgresStoreOptions,
  UserPoolOptions,
} from './postgres-store-options.js';
export type { TableOptions } from './sql/table-name.js';
