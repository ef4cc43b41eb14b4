export { openConnection } from '../../../../../lib/stores/redis/own-connection.js';
