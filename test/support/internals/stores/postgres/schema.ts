export {
  historySql,
  MIGRATIONS,
  migrationSql,
} from '../../../../../lib/stores/postgres/schema/migrations.js';
