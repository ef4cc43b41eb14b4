import type { IdempotencyEvent, IdempotencyEvents } from 'nestjs-idempotency';
import type { LineFile } from './line-file.js';

/** Said of every request, and seen by the clients as well. */
const EVERYDAY: ReadonlySet<IdempotencyEvent['type']> = new Set<IdempotencyEvent['type']>([
  'acquired',
  'replayed',
  'waited',
  'rejected',
  'completed',
  'released',
  'ended',
]);

/** Writes down whatever the library reports beyond the everyday. */
export function recordEvents(events: IdempotencyEvents, file: LineFile, worker: string): void {
  const record = (event: IdempotencyEvent) => {
    if (EVERYDAY.has(event.type)) return;
    const { type, recordKey, attempt, fencingToken: fence, reason, error } = event as Details;
    const message = error?.message;
    file.append({ type, recordKey, attempt, fence, reason, message, worker, at: Date.now() });
  };
  events.subscribe(record, { replacesLog: true });
}

/** What some of the events carry. */
type Details = Pick<IdempotencyEvent, 'type'> & {
  readonly recordKey?: string;
  readonly attempt?: number;
  readonly fencingToken?: number;
  readonly reason?: string;
  readonly error?: Error;
};
