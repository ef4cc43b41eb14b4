export { MemoryIdempotencyStore, memoryStore } from './memory-idempotency-store.js';
export type { MemoryStoreOptions } from './memory-store-options.js';
