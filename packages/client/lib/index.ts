export { idempotentFetch } from './idempotent-fetch.js';
export type { Duration, IdempotentResponse, IdempotentFetchOptions } from './options.js';
export { newIdempotencyKey } from './idempotency-key.js';
export {
  IdempotencyProblemError,
  IdempotentFetchError,
  type IdempotencyProblemCode,
  type IdempotentFetchErrorCode,
  type UnfinishedCall,
  type UnfinishedCode,
} from './errors.js';
