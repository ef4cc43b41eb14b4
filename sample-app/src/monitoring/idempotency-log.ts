import { Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { type IdempotencyEvent, IdempotencyEvents, severityOf } from 'nestjs-idempotency';

/** Logs a line for each event. */
@Injectable()
export class IdempotencyLog implements OnModuleInit {
  private readonly logger = new Logger('Idempotency');

  constructor(private readonly events: IdempotencyEvents) {}

  onModuleInit(): void {
    this.events.subscribe((event) => this.#write(event), { replacesLog: true });
  }

  #write(event: IdempotencyEvent): void {
    const { type, operation, recordKey, ...details } = event;
    // The other events of an attempt say the same, and more.
    if (type === 'ended') return;
    const facts = Object.entries(details)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name}=${readable(value)}`);
    // Events of the store as a whole have no operation.
    const subject = [operation, recordKey?.slice(0, 8)].filter((part) => part !== undefined);
    const line = [type, ...subject, ...facts].join(' ');
    if (severityOf(event) === 'info') this.logger.log(line);
    else this.logger.warn(line);
  }
}

function readable(value: unknown): string {
  return String(typeof value === 'number' ? Math.round(value) : value);
}
