export { fromMysql2 } from './mysql2-executor.js';
export type { MysqlExecutor, MysqlPool } from '../shared/mysql-connections.js';
