export { documentIdempotency } from './document-idempotency.js';
