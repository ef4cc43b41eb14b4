export {
  IdempotencyStoreForNest,
  type IdempotencyStoreForNestOptions,
  type NestAcquireResult,
  type NestIdempotencyStorage,
  type NestStore,
  type NestStoredPayload,
} from './idempotency-store-for-nest.js';
