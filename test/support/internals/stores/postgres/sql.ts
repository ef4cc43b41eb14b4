export { loadStatements } from '../../../../../lib/stores/postgres/sql/sql-statements.js';
export { TableName } from '../../../../../lib/stores/postgres/sql/table-name.js';
export { TABLE } from '../../../../../lib/stores/postgres/sql/table-name.js';
