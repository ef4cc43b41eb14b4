export { openConnection } from '../../../../../lib/stores/redis/connection/own-connection.js';
