export { makeListeningClient } from '../../../lib/stores/postgres/own-pool.js';
export { POSTGRES_BLOBS } from '../../../lib/stores/postgres/postgres-blobs.js';
export { OWN as POSTGRES_OPTIONS } from '../../../lib/stores/postgres/postgres-store-options.js';
export type { DeletionRound } from '../../../lib/stores/shared/deletion.js';
export { DeletionSchedule, type DeleteFrom } from '../../../lib/stores/shared/deletion-schedule.js';
export { DELETION, deleteInBatches } from '../../../lib/stores/shared/deletion.js';
export { JOURNAL as POSTGRES_JOURNAL } from '../../../lib/stores/postgres/postgres-journal.js';
export type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../../../lib/transactions/shared/connections.js';
export {
  historySql,
  MIGRATIONS,
  migrationSql,
} from '../../../lib/stores/postgres/schema/migrations.js';
export { loadStatements } from '../../../lib/stores/postgres/sql/sql-statements.js';
export { TableName } from '../../../lib/stores/postgres/sql/table-name.js';
export { TABLE } from '../../../lib/stores/postgres/sql/table-name.js';
export { deletionFailed } from '../../../lib/stores/postgres/cleanup/delete-expired.js';
