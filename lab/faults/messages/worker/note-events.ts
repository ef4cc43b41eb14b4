import type { IdempotencyEvents } from 'nestjs-idempotency';
import type { LineFile } from '../../worker/line-file.js';

/** Records all events of a key. */
export function noteEvents(events: IdempotencyEvents, file: LineFile, worker: string): void {
  events.subscribe(
    (event) => {
      const { type, recordKey } = event;
      const attempt = 'attempt' in event ? event.attempt : undefined;
      const fence = 'fencingToken' in event ? event.fencingToken : undefined;
      const reason = 'reason' in event ? event.reason : undefined;
      file.append({ type, recordKey, attempt, fence, reason, worker, at: Date.now() });
    },
    { replacesLog: true },
  );
}
