export { formatDuration } from '../../../lib/swagger/route-documentation.js';
