export {
  historySql,
  MIGRATIONS,
  migrationSql,
} from '../../../../../lib/stores/postgres/migrations.js';
