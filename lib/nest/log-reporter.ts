import type { LoggerService } from '@nestjs/common';
import type { IdempotencyEvent, IdempotencyEventReporter } from '../core/events.js';
import { RepeatedWarning } from './repeated-warning.js';

/** Logs what nobody else reports: critical events, and subscribers that fail. */
export class LogReporter implements IdempotencyEventReporter {
  private readonly outage: RepeatedWarning;
  private readonly opening: RepeatedWarning;

  constructor(private readonly logger: LoggerService) {
    this.outage = new RepeatedWarning(logger);
    this.opening = new RepeatedWarning(logger);
  }

  critical(event: IdempotencyEvent): void {
    const { type } = event;
    if (type === 'store_unavailable') {
      this.outage.warn(`${type} in ${event.operation}: ${event.error.message}`);
    } else if (type === 'breaker_opened') {
      this.opening.warn(`${type}: ${event.error.message}`);
    } else if (event.operation !== undefined) {
      // The record key, a digest, ties lines together without naming anybody.
      this.logger.warn(`${type} in ${event.operation}, record ${event.recordKey}`);
    }
  }

  subscriberFailed({ type }: IdempotencyEvent, error: unknown): void {
    const cause = error instanceof Error ? error.stack : String(error);
    this.logger.error(`A subscriber to events failed on "${type}".`, cause);
  }
}
