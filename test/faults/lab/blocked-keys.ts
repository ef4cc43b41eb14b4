import type { Evidence } from './evidence.js';
import type { EventLine, ObservedStep } from './worker/lines.js';

type Began = Extract<ObservedStep, { type: 'lab:began' }>;

/** A key whose owner died, and how long it took until another attempt had it. */
export interface BlockedKey {
  readonly recordKey: string;
  /** The worker that died. */
  readonly owner: string;
  readonly ms: number;
}

/** Every attempt that died with its worker before its record was settled, and was succeeded by another. */
export function blockedKeys({ events, deaths }: Evidence): BlockedKey[] {
  const diedAt = new Map(deaths);
  for (const event of events) {
    if (event.type === 'lab:crash') diedAt.set(event.worker, event.at);
  }
  const settled = new Set(events.filter(isSettled).map(attemptOf));
  const begun = events.filter(hasBegun).sort((a, b) => a.fence - b.fence);
  const owners = new Map<string, Began>();
  const blocked: BlockedKey[] = [];
  for (const attempt of begun) {
    const { recordKey } = attempt;
    const before = owners.get(recordKey);
    const death = before === undefined ? undefined : diedAt.get(before.worker);
    owners.set(recordKey, attempt);
    if (before === undefined || death === undefined || settled.has(attemptOf(before))) continue;
    if (before.fence === attempt.fence) continue;
    blocked.push({ recordKey, owner: before.worker, ms: Math.max(0, attempt.at - death) });
  }
  return blocked;
}

function hasBegun(event: EventLine): event is Began {
  return event.type === 'lab:began';
}

function isSettled(event: EventLine): event is Extract<ObservedStep, { type: 'lab:settled' }> {
  return event.type === 'lab:settled';
}

function attemptOf({ recordKey, fence }: { recordKey: string; fence: number }): string {
  return `${recordKey} ${fence}`;
}
