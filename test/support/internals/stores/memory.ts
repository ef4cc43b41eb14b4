export { ExpiryQueue } from '../../../../lib/stores/memory/expiry-queue.js';
