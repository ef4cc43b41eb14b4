import type { LoggerService } from '@nestjs/common';
import type { IdempotencyEvent, IdempotencyEventReporter } from '../core/events.js';

/** Logs what nobody else reports: critical events, and subscribers that fail. */
export class LogReporter implements IdempotencyEventReporter {
  constructor(private readonly logger: LoggerService) {}

  critical(event: IdempotencyEvent): void {
    // The record key is a digest: it ties lines together and gives nothing away.
    const { type, operation, recordKey } = event;
    const reason = event.type === 'store_unavailable' ? `: ${event.error.message}` : '';
    this.logger.warn(`${type} in ${operation}, record ${recordKey}${reason}`);
  }

  subscriberFailed({ type }: IdempotencyEvent, error: unknown): void {
    const cause = error instanceof Error ? error.stack : String(error);
    this.logger.error(`A subscriber to events failed on "${type}".`, cause);
  }
}
