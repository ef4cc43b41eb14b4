export { HEALTH_OPTIONS } from '../../../lib/observability/health/idempotency-health.js';
export { INDICATOR_OPTIONS } from '../../../lib/observability/terminus/idempotency-health-indicator.js';
