import { DelayedError, UnrecoverableError } from 'bullmq';
import type { OperationRejectedError } from '../core/util/errors.js';

/** However short "retryAfterMs" is: a job does not go round faster than five times a second. */
const LEAST_DELAY_MS = 200;

/** What is needed of a job of BullMQ. */
export interface DelayableJob {
  /** The worker's lock on the job. */
  readonly token?: string | undefined;
  moveToDelayed(timestamp: number, token?: string): Promise<void>;
}

/**
 * What a processor does with a job that cannot be run now, without a loss and without an attempt of it: for the option
 * `onRejected` of `@Idempotent()`, or to be called where `IdempotencyService.run()` has thrown.
 *
 * - A rejection that may end otherwise later (in progress elsewhere, store unavailable, shutting down, a conflict of
 *   transactions) moves the job to the delayed ones, for `retryAfterMs`, 200 ms at the least. It counts as no attempt,
 *   neither to `attempts` nor to `backoff`.
 * - Any other (the key of another payload, outcome unknown, value not kept, no key) fails the job for good, whatever
 *   `attempts` says: no repetition can help. Its `failedReason` ends with the error's code.
 *
 * @param token - the processor's second argument; the job's own if it is left out.
 * @throws `DelayedError` or `UnrecoverableError` of BullMQ, always; what `moveToDelayed` throws where the worker has lost
 * its lock.
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
