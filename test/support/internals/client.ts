export { idempotencyKeyField } from '../../../packages/client/lib/idempotency-key.js';
export { CLIENT_OPTIONS } from '../../../packages/client/lib/options.js';
export { fullJitterMs, retryAfterMs } from '../../../packages/client/lib/retry-policy.js';
export { abortable } from '../../../packages/client/lib/time-limit.js';
