import type { LoggerService } from '@nestjs/common';
import { EVENT_SEVERITY, type IdempotencyEvent } from '../core/record/events.js';
import type { IdempotencyEventReporter } from '../core/record/idempotency-events.js';
import { warnBy } from '../core/util/maybe-async.js';

/** Logs warnings, critical events and failing subscribers, which nothing else reports. */
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

  report(event: IdempotencyEvent): void {
    switch (event.type) {
      case 'store_unavailable':
        this.outage.warn(`${event.type} in ${event.operation}: ${event.error.message}`);
        return;
      case 'breaker_opened':
        this.opening.warn(`${event.type}: ${event.error.message}`);
        return;
      case 'reply_mismatched':
        this.mismatch.warn(`${event.type}: ${event.error.message}`);
        return;
      default:
        if (EVENT_SEVERITY[event.type] === 'critical') this.logger.error(lineOf(event));
        else this.logger.warn(lineOf(event));
    }
  }

  subscriberFailed({ type }: IdempotencyEvent, error: unknown): void {
    this.logger.error(`A subscriber to events failed on "${type}".`, causeOf(error));
  }

  telemetryFailed(method: string, error: unknown): void {
    this.logger.error(`${method} of a telemetry failed.`, causeOf(error));
  }
}

function causeOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : String(error);
}

/** The record key is a digest: it links lines without identifying a caller. */
function lineOf(event: IdempotencyEvent): string {
  const { type, operation = '', recordKey = '' } = event;
  const errorType = 'errorType' in event ? event.errorType : undefined;
  const why = errorType === undefined ? '' : ` (${errorType})`;
  return `${type} in ${operation}, record ${recordKey}${why}`;
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
