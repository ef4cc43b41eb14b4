import { recordKeyOf } from '../extra-executions.js';
import type { EventLine } from '../worker/lines.js';
import type { WireDelivery } from './wire/wire-log.js';

/** By these a consumer learns that there is an outcome: its own, or another's. */
const OUTCOME_KNOWN: ReadonlySet<string> = new Set(['completed', 'replayed', 'superseded']);

/** Deliveries that a consumer acknowledged before it knew of an outcome of their message. */
export function early(
  deliveries: readonly WireDelivery[],
  events: readonly EventLine[],
): WireDelivery[] {
  const knownSince = new Map<string, number>();
  for (const event of events) {
    if (!OUTCOME_KNOWN.has(event.type) || !('recordKey' in event)) continue;
    const name = `${event.worker} ${event.recordKey}`;
    knownSince.set(name, Math.min(event.at, knownSince.get(name) ?? event.at));
  }
  return deliveries.filter(({ key, consumer, end, endedAt }) => {
    if (end !== 'acked') return false;
    const since = knownSince.get(`${consumer} ${recordKeyOf(key)}`);
    return since === undefined || since > endedAt;
  });
}
