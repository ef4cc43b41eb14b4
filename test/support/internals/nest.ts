export { useFastPath } from '../../../lib/nest/fast-path.js';
export { IdempotencyInterceptor } from '../../../lib/nest/idempotency.interceptor.js';
export { LogReporter } from '../../../lib/nest/log-reporter.js';
