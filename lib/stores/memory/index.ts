export {
  MemoryIdempotencyStore,
  memoryStore,
  type MemoryStoreOptions,
} from './memory-idempotency-store.js';
