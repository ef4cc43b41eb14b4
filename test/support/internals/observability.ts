export { HEALTH_OPTIONS } from '../../../lib/observability/health/idempotency-health.js';
export {
  METRICS,
  prometheusLabel,
  prometheusName,
} from '../../../lib/observability/metrics/catalogue.js';
export { METRICS_OPTIONS } from '../../../lib/observability/opentelemetry/metrics.js';
export { OPEN_TELEMETRY_OPTIONS } from '../../../lib/observability/opentelemetry/open-telemetry.js';
export { PROMETHEUS_OPTIONS } from '../../../lib/observability/prometheus/prometheus.js';
export { INDICATOR_OPTIONS } from '../../../lib/observability/terminus/idempotency-health-indicator.js';
