export { inWords } from '../../../lib/swagger/route-text.js';
