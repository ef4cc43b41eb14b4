export { openConnection } from '../../../../../lib/stores/redis/connection/own-connection.js';
export { COMMON, OWN } from '../../../../../lib/stores/redis/connection/redis-store-options.js';
