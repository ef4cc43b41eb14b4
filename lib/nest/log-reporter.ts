import type { LoggerService } from '@nestjs/common';
import type { IdempotencyEvent, IdempotencyEventReporter } from '../core/record/events.js';
import { warnBy } from '../core/util/maybe-async.js';

/** Logs critical events and failing subscribers, which nothing else reports. */
export class LogReporter implements IdempotencyEventReporter {
  private readonly outage: ThrottledWarning;
  private readonly opening: ThrottledWarning;
  private readonly mismatch: ThrottledWarning;

  constructor(private readonly logger: LoggerService) {
    this.outage = new ThrottledWarning(logger);
    this.opening = new ThrottledWarning(logger);
    this.mismatch = new ThrottledWarning(logger);
    warnBy((message) => {
      logger.warn(message);
    });
  }

  critical(event: IdempotencyEvent): void {
    const { type } = event;
    if (type === 'store_unavailable') {
      this.outage.warn(`${type} in ${event.operation}: ${event.error.message}`);
    } else if (type === 'breaker_opened') {
      this.opening.warn(`${type}: ${event.error.message}`);
    } else if (type === 'reply_mismatched') {
      this.mismatch.warn(`${type}: ${event.error.message}`);
    } else if (
      type === 'rolled_back' ||
      type === 'commit_hook_failed' ||
      type === 'recovery_failed'
    ) {
      // A database's message may contain data; its code is safe.
      const code = codeOf(event.error);
      const why = code === undefined ? '' : ` (${code})`;
      this.logger.warn(`${type} in ${event.operation}, record ${event.recordKey}${why}`);
    } else if (event.operation !== undefined) {
      // The record key is a digest: it links lines without identifying a caller.
      this.logger.warn(`${type} in ${event.operation}, record ${event.recordKey}`);
    }
  }

  subscriberFailed({ type }: IdempotencyEvent, error: unknown): void {
    const cause = error instanceof Error ? error.stack : String(error);
    this.logger.error(`A subscriber to events failed on "${type}".`, cause);
  }
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error instanceof Error ? error.name : undefined;
}

/** Minimum milliseconds between two lines of a warning; each line counts the suppressed ones. */
const PAUSE_MS = 10_000;

class ThrottledWarning {
  private warnedAt = -Infinity;
  private suppressed = 0;

  constructor(private readonly logger: LoggerService) {}

  warn(message: string): void {
    const now = performance.now();
    if (now - this.warnedAt < PAUSE_MS) {
      this.suppressed += 1;
      return;
    }
    const others =
      this.suppressed === 0 ? '' : ` (and ${String(this.suppressed)} more since the last line)`;
    this.warnedAt = now;
    this.suppressed = 0;
    this.logger.warn(`${message}${others}`);
  }
}
