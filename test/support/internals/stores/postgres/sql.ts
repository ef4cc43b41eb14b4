export { loadStatements } from '../../../../../lib/stores/postgres/sql-statements.js';
export { TableName } from '../../../../../lib/stores/postgres/table-name.js';
