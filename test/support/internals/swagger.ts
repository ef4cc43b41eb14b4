export { inWords } from '../../../lib/swagger/duration.js';
