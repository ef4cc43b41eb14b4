export {
  IdempotencyTestingModule,
  type IdempotencyTestingOptions,
} from './idempotency-testing.module.js';
export { IdempotencyTestClock } from './idempotency-test-clock.js';
export {
  IdempotencyTestRecords,
  type IdempotencyTestOutcome,
  type IdempotencyTestRecord,
} from './idempotency-test-records.js';
export {
  createIdempotencyContext,
  type IdempotencyTestContext,
  type IdempotencyTestContextOptions,
} from './idempotency-test-context.js';
export { unprotected } from './pass-through.js';
