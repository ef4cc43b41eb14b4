export { HEALTH_OPTIONS } from '../../../lib/observability/health/idempotency-health.js';
export { METRICS } from '../../../lib/core/meter/instruments.js';
export {
  prometheusLabel,
  prometheusName,
} from '../../../lib/observability/prometheus/collector.js';
export { METRICS_OPTIONS } from '../../../lib/observability/opentelemetry/metrics.js';
export { OPEN_TELEMETRY_OPTIONS } from '../../../lib/observability/opentelemetry/open-telemetry.js';
export { PROMETHEUS_OPTIONS } from '../../../lib/observability/prometheus/prometheus.js';
export { INDICATOR_OPTIONS } from '../../../lib/observability/terminus/idempotency-health-indicator.js';
