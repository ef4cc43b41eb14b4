export { MYSQL_OWN } from '../../../lib/stores/mysql/mysql-store-options.js';
export { loadMysqlStatements } from '../../../lib/stores/mysql/sql/sql-statements.js';
export { MYSQL_TABLE, MysqlTable } from '../../../lib/stores/mysql/sql/table-name.js';
export { guardMysql2, restoringSession } from '../../../lib/transactions/shared/mysql-guard.js';
