export { abortable } from '../../../lib/client/call-limits.js';
export { PROBLEM_RETRYABLE } from '../../../lib/client/errors.js';
export { idempotencyKeyField } from '../../../lib/client/idempotency-key.js';
export { CLIENT_DEFAULTS } from '../../../lib/client/options.js';
export { fullJitterMs, retryAfterMs } from '../../../lib/client/retry-policy.js';
