export { makeListeningClient } from '../../../../lib/stores/postgres/own-pool.js';
