export { SQLITE_OPTIONS } from '../../../lib/stores/sqlite/sqlite-store-options.js';
