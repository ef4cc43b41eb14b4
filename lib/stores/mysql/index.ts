export type {
  DeleteExpired,
  DeletionInterval,
  DeletionOptions,
  DeletionPace,
  DeletionReport,
} from '../shared/deletion.js';
export type {
  MysqlConnection,
  MysqlConnections,
  MysqlExecutor,
  MysqlQuery,
  MysqlValue,
} from '../../transactions/shared/mysql-connections.js';
export {
  MysqlIdempotencyStore,
  type MysqlIdempotencyStoreOptions,
} from './mysql-idempotency-store.js';
export { mysqlStore } from './mysql-store.js';
export type {
  MysqlConnectionOptions,
  MysqlExecutorOptions,
  MysqlOwnPoolOptions,
  MysqlStoreOptions,
} from './mysql-store-options.js';
export type { MysqlTableOptions } from './sql/table-name.js';
