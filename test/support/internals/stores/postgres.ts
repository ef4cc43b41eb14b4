export { makeListeningClient } from '../../../../lib/stores/postgres/own-pool.js';
export { OWN as POSTGRES_OPTIONS } from '../../../../lib/stores/postgres/postgres-store-options.js';
