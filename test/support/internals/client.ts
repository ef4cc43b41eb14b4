export { idempotencyKeyField } from '../../../lib/client/idempotency-key.js';
export { CLIENT_OPTIONS } from '../../../lib/client/options.js';
export { fullJitterMs, retryAfterMs } from '../../../lib/client/retry-policy.js';
export { abortable } from '../../../lib/client/time-limit.js';
