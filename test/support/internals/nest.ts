export { IdempotencyInterceptor } from '../../../lib/nest/idempotency.interceptor.js';
export { LogReporter } from '../../../lib/nest/log-reporter.js';
