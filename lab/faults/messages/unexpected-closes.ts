import { FORGED_TAG_REJECTION } from './worker/settings.js';
import type { MessageEvidence } from './message-evidence.js';
import type { WireClose } from './wire/wire-log.js';

/** An application's own end of a channel carries this code; any other says what went wrong. */
const ORDERLY = '200 ';

/**
 * Channels that ended unexpectedly: their consumer was alive, and got no command to close so many. A second
 * acknowledgement of a message, for example, makes the broker redeliver all messages of the channel.
 */
export function unexpectedCloses({
  wire,
  events,
  deaths,
  closesAsked,
  endedAt,
}: Pick<MessageEvidence, 'wire' | 'events' | 'deaths' | 'closesAsked' | 'endedAt'>): WireClose[] {
  const dead = new Set(deaths.keys());
  for (const event of events) if (event.type === 'lab:crash') dead.add(event.worker);
  const asked = new Map(closesAsked);
  return wire.closes.filter(({ consumer, by, reason, at }) => {
    if (at >= endedAt || (by === 'none' && dead.has(consumer))) return false;
    const isInOrder =
      by === 'none' ||
      reason === FORGED_TAG_REJECTION ||
      (by === 'consumer' && reason?.startsWith(ORDERLY) === true);
    if (!isInOrder) return true;
    const left = asked.get(consumer) ?? 0;
    asked.set(consumer, left - 1);
    return left <= 0;
  });
}
