export type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../../../../../lib/stores/postgres/postgres-client.js';
