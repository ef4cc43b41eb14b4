import { recordKey, type RecordKey } from 'nestjs-idempotency/store';
import { CALLER } from './client.js';
import type { Evidence } from './evidence.js';
import type { Effect, EventLine } from './worker/lines.js';
import { OPERATION, SERVICE } from './worker/settings.js';

/** An operation that ran again, and which attempts were notified. */
export interface ExtraExecution {
  readonly effect: Effect;
  readonly before: Effect;
  /** Its own attempt knew that it takes over, or that it runs unprotected. */
  readonly reportedToSecond: boolean;
  /** The attempt before learned that it lost its lease, its record or its place, or had none. */
  readonly reportedToFirst: boolean;
  /** A client had a success of the key before it ran: the store had lost a finished record. */
  readonly afterSuccess: boolean;
}

/** The events of the previous attempt: that it lost something, never had it, or has not stored its outcome. */
const RETURNED_TO_FIRST = [
  'lease_lost',
  'superseded',
  'outcome_diverged',
  'record_lost',
  // At the hard deadline, the end of saving may come first.
  'save_failed',
  'unprotected',
];

/** The record key that the library derives for a key of the laboratory. */
export function recordKeyOf(key: string): RecordKey {
  return recordKey({ service: SERVICE, scope: [CALLER], operation: OPERATION, key });
}

/** Finds them in the ledger, and their reports in the events. */
export function extraExecutions({ ledger, events, clients }: Evidence): ExtraExecution[] {
  const repeated = [...byKey(ledger)].filter(([, effects]) => effects.length > 1);
  if (repeated.length === 0) return [];
  const reported = new Set(events.map(nameOf));
  return repeated.flatMap(([key, effects]) => {
    const record = recordKeyOf(key);
    const was = (type: string, { fence }: Effect) => reported.has(name(type, record, fence));
    const seen = [...(clients.keys.get(key)?.successes.values() ?? [])];
    return effects.slice(1).map((effect, index) => {
      const before = effects[index]!;
      // One attempt that runs its operation twice is not a successor.
      const isSuccessor = effect.fence !== before.fence || effect.fence === 0;
      return {
        effect,
        before,
        reportedToSecond:
          isSuccessor &&
          ((effect.isTakeover && was('takeover', effect)) || was('unprotected', effect)),
        reportedToFirst: isSuccessor && RETURNED_TO_FIRST.some((type) => was(type, before)),
        afterSuccess:
          isSuccessor && seen.some(({ firstAt }) => firstAt < effect.at && firstAt >= before.at),
      };
    });
  });
}

/** In the order of their fencing tokens: a paused attempt may have its effect after its successor. */
function byKey(ledger: readonly Effect[]): Map<string, Effect[]> {
  const found = new Map<string, Effect[]>();
  for (const effect of ledger) {
    const effects = found.get(effect.key);
    if (effects === undefined) found.set(effect.key, [effect]);
    else effects.push(effect);
  }
  for (const effects of found.values()) effects.sort((a, b) => a.fence - b.fence || a.at - b.at);
  return found;
}

function nameOf(event: EventLine): string {
  const { recordKey: record, fence } = event as { recordKey?: string; fence?: number };
  return name(event.type, record, fence);
}

function name(type: string, record: string | undefined, fence: number | undefined): string {
  return `${type} ${record} ${fence}`;
}
