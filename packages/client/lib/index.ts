export { idempotentFetch } from './idempotent-fetch.js';
export type { IdempotentResponse, IdempotentFetchOptions } from './options.js';
export { newIdempotencyKey } from './idempotency-key.js';
export {
  IdempotencyProblemError,
  IdempotentFetchError,
  type IdempotencyProblemCode,
  type IdempotentFetchErrorCode,
  type UnfinishedCode,
} from './errors.js';
