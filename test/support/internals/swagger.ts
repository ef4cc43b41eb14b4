export { inWords } from '../../../lib/swagger/route-documentation.js';
