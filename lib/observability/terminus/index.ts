export {
  IdempotencyHealthIndicator,
  type IdempotencyHealthIndicatorOptions,
} from './idempotency-health-indicator.js';
