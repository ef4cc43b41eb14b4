import type { Evidence } from './evidence.js';
import { recordKeyOf } from './extra-executions.js';
import type { EventLine, ObservedStep } from './worker/lines.js';

type Began = Extract<ObservedStep, { type: 'lab:began' }>;

/** A key whose owner died, and for how long its clients were refused after that. */
export interface BlockedKey {
  readonly recordKey: string;
  /** The worker that died. */
  readonly owner: string;
  /** Until the last request was sent that was refused before another attempt had the key. */
  readonly ms: number;
}

/**
 * Every attempt that died with its worker before its record was settled, and was succeeded by another. A key
 * that no client could request, for lack of a worker or of processor time, was not blocked meanwhile.
 */
export function blockedKeys({ events, deaths, clients }: Evidence): BlockedKey[] {
  const diedAt = new Map(deaths);
  for (const event of events) {
    if (event.type === 'lab:crash') diedAt.set(event.worker, event.at);
  }
  const rejections = new Map(
    [...clients.keys].map(([key, history]) => [recordKeyOf(key) as string, history.rejections]),
  );
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
    // One in between died before it could be seen, at an unknown time.
    if (attempt.attempt !== before.attempt + 1) continue;
    // A fence is the server's clock in µs, and the server is on this machine. Whatever was answered later may
    // have been refused for the sake of the new attempt.
    const takenAt = Math.floor(attempt.fence / 1_000);
    const old = rejections.get(recordKey)?.filter(({ receivedAt }) => receivedAt < takenAt) ?? [];
    const last = Math.max(death, ...old.map(({ sentAt }) => sentAt));
    blocked.push({ recordKey, owner: before.worker, ms: last - death });
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
