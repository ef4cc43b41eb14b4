export { inWords, problemResponses } from '../../../lib/swagger/route-documentation.js';
