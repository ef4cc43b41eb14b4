export {
  TransactionAbortedError,
  TransactionControlError,
  TransactionOverError,
} from '../shared/guarded-handle.js';
export type {
  MysqlConnection,
  MysqlConnections,
  MysqlExecutor,
  MysqlPool,
  MysqlQuery,
} from '../shared/mysql-connections.js';
export { fromMysql2 } from './mysql2-executor.js';
export { mysql2UnitOfWork, type Mysql2Transaction } from './mysql2-unit-of-work.js';
