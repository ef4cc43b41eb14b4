export { abortable } from '../../../lib/client/abortable.js';
export { PROBLEM_RETRYABLE } from '../../../lib/client/errors.js';
export { idempotencyKeyField } from '../../../lib/client/idempotency-key.js';
export { CLIENT_DEFAULTS } from '../../../lib/client/call-settings.js';
export { fullJitterMs } from '../../../lib/client/backoff.js';
export { retryAfterMs } from '../../../lib/client/retry-after.js';
