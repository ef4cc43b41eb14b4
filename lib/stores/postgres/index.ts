export type {
  DeleteExpired,
  DeletionInterval,
  DeletionOptions,
  DeletionPace,
  DeletionReport,
} from '../shared/deletion.js';
export {
  postgresAudit,
  type AuditTableOptions,
  type PostgresAudit,
  type PostgresAuditOptions,
} from './postgres-audit.js';
export type { PostgresJournalOptions } from './postgres-journal.js';
export {
  postgresBlobs,
  type BlobTableOptions,
  type PostgresBlobs,
  type PostgresBlobsOptions,
} from './postgres-blobs.js';
export { migrate, postgresStore } from './postgres-store.js';
export type {
  ExecutorKind,
  PostgresConnection,
  PostgresConnections,
  PostgresExecutor,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../../transactions/shared/connections.js';
export {
  PostgresIdempotencyStore,
  type PostgresIdempotencyStoreOptions,
} from './postgres-idempotency-store.js';
export type {
  CommonOptions as PostgresCommonOptions,
  ExecutorOptions,
  OwnPoolOptions,
  PostgresConnectionOptions,
  PostgresStoreOptions,
} from './postgres-store-options.js';
export type { TableOptions } from './sql/table-name.js';
