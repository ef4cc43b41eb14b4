import type { LoggerService } from '@nestjs/common';
import type { IdempotencyEvent, IdempotencyEventReporter } from '../core/events.js';

/** An outage is told once in this time, not once per request. */
const OUTAGE_PAUSE_MS = 10_000;

/** Logs what nobody else reports: critical events, and subscribers that fail. */
export class LogReporter implements IdempotencyEventReporter {
  private outageToldAt = -Infinity;
  private untold = 0;

  constructor(private readonly logger: LoggerService) {}

  critical(event: IdempotencyEvent): void {
    // The record key, a digest, ties lines together without naming anybody.
    const { type, operation, recordKey } = event;
    if (event.type === 'store_unavailable') this.outage(operation, event.error);
    else this.logger.warn(`${type} in ${operation}, record ${recordKey}`);
  }

  subscriberFailed({ type }: IdempotencyEvent, error: unknown): void {
    const cause = error instanceof Error ? error.stack : String(error);
    this.logger.error(`A subscriber to events failed on "${type}".`, cause);
  }

  private outage(operation: string, { message }: Error): void {
    const now = performance.now();
    if (now - this.outageToldAt < OUTAGE_PAUSE_MS) {
      this.untold += 1;
      return;
    }
    const others =
      this.untold === 0 ? '' : ` (and ${String(this.untold)} more since the last line)`;
    this.outageToldAt = now;
    this.untold = 0;
    this.logger.warn(`store_unavailable in ${operation}: ${message}${others}`);
  }
}
