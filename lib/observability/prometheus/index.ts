export { prometheus, type PrometheusOptions, type UsedRegistry } from './prometheus.js';
