import { Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { type IdempotencyEvent, IdempotencyEvents } from 'nestjs-idempotency';

/** The everyday events; all others are logged as warnings. */
const everyday: ReadonlySet<IdempotencyEvent['type']> = new Set([
  'acquired',
  'replayed',
  'waited',
  'rejected',
  'completed',
  'released',
  'breaker_closed',
]);

/** Logs a line for each event; a dashboard would count them here. */
@Injectable()
export class IdempotencyLog implements OnModuleInit {
  private readonly logger = new Logger('Idempotency');

  constructor(private readonly events: IdempotencyEvents) {}

  onModuleInit(): void {
    this.events.subscribe((event) => this.#write(event), { replacesLog: true });
  }

  #write({ type, operation, recordKey, ...details }: IdempotencyEvent): void {
    const facts = Object.entries(details).map(([name, value]) => `${name}=${readable(value)}`);
    // Events of the store as a whole have no operation.
    const subject = operation === undefined ? [] : [operation, recordKey.slice(0, 8)];
    const line = [type, ...subject, ...facts].join(' ');
    if (everyday.has(type)) this.logger.log(line);
    else this.logger.warn(line);
  }
}

function readable(value: unknown): string {
  return String(typeof value === 'number' ? Math.round(value) : value);
}
