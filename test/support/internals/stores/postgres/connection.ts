export type {
  PostgresConnection,
  PostgresPool,
  PostgresQuery,
  PostgresResult,
} from '../../../../../lib/stores/postgres/connection/postgres-client.js';
