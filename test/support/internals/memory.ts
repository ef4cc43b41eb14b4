export { ExpiryQueue } from '../../../lib/stores/memory/expiry-queue.js';
export {
  MemoryIdempotencyStore,
  OPTIONS as MEMORY_OPTIONS,
} from '../../../lib/stores/memory/memory-idempotency-store.js';
