import { DelayedError, UnrecoverableError } from 'bullmq';
import type { OperationRejectedError } from '../core/errors/errors.js';

/** Minimum delay in milliseconds, whatever "retryAfterMs": a job is retried five times a second at the most. */
const LEAST_DELAY_MS = 200;

/** The members of a BullMQ job that {@link delayJob} needs. */
export interface DelayableJob {
  /** The worker's lock on the job. */
  readonly token?: string | undefined;
  moveToDelayed(timestamp: number, token?: string): Promise<void>;
}

/**
 * Delays or fails a job whose operation was rejected, without losing it or using up an attempt. For the option
 * `onRejected` of `@Idempotent()`, or to call when `IdempotencyService.run()` has thrown.
 * - A temporary rejection (in progress elsewhere, store unavailable, shutting down, transaction conflict) delays the
 *   job by `retryAfterMs`, 200 ms at the least. It counts neither to `attempts` nor to `backoff`.
 * - Any other (key reused, outcome unknown, value not kept, no key) fails the job for good, whatever `attempts`. Its
 *   `failedReason` ends with the error's code.
 * @param token - the processor's second argument; the job's own by default.
 * @throws always: `DelayedError` or `UnrecoverableError` of BullMQ, or the error of `moveToDelayed` if the lock is
 *   lost.
 * @example
 * ```ts
 * @Idempotent({ operation: 'orders.handle', key: ({ data }: Job<Order>) => data.id, onRejected: delayJob })
 * async process(job: Job<Order>): Promise<Receipt> { … }
 * ```
 */
export async function delayJob(
  error: OperationRejectedError,
  job: DelayableJob,
  token: string | undefined = job.token,
): Promise<never> {
  const { retryAfterMs } = error;
  if (retryAfterMs === undefined) {
    throw Object.assign(new UnrecoverableError(`${error.message} [${error.code}]`), {
      cause: error,
    });
  }
  await job.moveToDelayed(Date.now() + Math.max(retryAfterMs, LEAST_DELAY_MS), token);
  throw new DelayedError();
}
