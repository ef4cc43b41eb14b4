import {
  UNKNOWN_FENCE,
  type FinishedRecord,
  type InProgressRecord,
  type Lease,
  type OwnerToken,
  type ReleasedRecord,
  type StoredRecord,
} from '../record/record.js';
import type * as Store from '../record/commands.js';

/** What a step of the state machine replies, and the record that it leaves. */
export interface Transition<Reply> {
  readonly reply: Reply;
  /** The record after the step: the same object if nothing changed. */
  readonly record: StoredRecord | undefined;
}

export function begin(
  stored: StoredRecord | undefined,
  command: Store.Begin,
  nowUs: number,
): Transition<Store.BeginReply> {
  const now = toMs(nowUs);
  const record = live(stored, now);
  if (record === undefined) {
    return acquire(stored, command, nowUs, { kind: 'acquired', attempt: 1, takeovers: 0 });
  }
  const mine = record.token === command.token;
  if (record.state === 'released') {
    if (mine) return { reply: { kind: 'stale_begin' }, record: stored };
    const { attempt, takeovers } = record;
    return acquire(record, command, nowUs, { kind: 'acquired', attempt: attempt + 1, takeovers });
  }
  if (record.fingerprint !== command.fingerprint) {
    return { reply: { kind: 'mismatch' }, record: stored };
  }
  if (record.state !== 'in_progress') {
    const { state, outcome, expiresAt } = record;
    const reply = { kind: state, outcome, retentionLeftMs: expiresAt - now };
    return { reply: withNote(reply, record.note), record: stored };
  }
  const { attempt, takeovers, fence } = record;
  if (mine) {
    const renewed = renew(record, command.leaseMs, command.recordRetentionMs, now);
    return { reply: { kind: 'owned', fence, now, attempt, takeovers }, record: renewed };
  }
  const clamped = clampLease(record, now);
  const leaseLeftMs = clamped.leaseUntil - now;
  if (leaseLeftMs > 0) {
    const reply = withNote({ kind: 'in_progress' as const, leaseLeftMs }, record.note);
    return { reply, record: clamped };
  }
  if (command.onExpiredLease === 'deny') {
    const overMs = now - clamped.leaseUntil;
    const reply = { kind: 'abandoned', fence, overMs, attempt, takeovers } as const;
    return { reply: withNote(reply, record.note), record: stored };
  }
  return acquire(record, command, nowUs, {
    kind: 'takeover',
    attempt: attempt + 1,
    takeovers: takeovers + 1,
  });
}

export function extend(
  stored: StoredRecord | undefined,
  lease: Lease,
  command: Store.Extend,
  nowUs: number,
): Transition<Store.ExtendReply> {
  const now = toMs(nowUs);
  const record = live(stored, now);
  const unchanged = (kind: Store.ExtendReply['kind']) => ({ reply: { kind }, record: stored });
  if (record === undefined) return unchanged('gone');
  if (record.state !== 'in_progress') {
    return unchanged(record.token === lease.token ? 'not_in_progress' : 'lost');
  }
  if (!holds(record, lease)) return unchanged('lost');
  if (now >= record.deadline) return unchanged('max_execution');
  return {
    reply: { kind: now >= record.leaseUntil ? 'revived' : 'ok' },
    record: renew(record, command.leaseMs, command.recordRetentionMs, now),
  };
}

export function complete(
  stored: StoredRecord | undefined,
  lease: Lease,
  command: Store.Complete,
  nowUs: number,
): Transition<Store.CompleteReply> {
  const now = toMs(nowUs);
  const record = live(stored, now);
  const { state, outcome, fingerprint } = command;
  const expiresAt = now + command.retentionMs;
  if (record === undefined) {
    // A restored failure could hide the effect of an attempt whose record is gone.
    if (command.whenGone === 'report' || state === 'failed') {
      return { reply: { kind: 'gone' }, record: stored };
    }
    const own = lease.fence === UNKNOWN_FENCE ? nowUs : lease.fence;
    const fence = Math.max(stored?.fence ?? 0, own);
    const { token } = lease;
    return {
      reply: { kind: 'restored' },
      record: { state, token, fence, fingerprint, attempt: 1, takeovers: 0, expiresAt, outcome },
    };
  }
  const { fence, attempt, takeovers, note } = record;
  const mine = record.token === lease.token;
  switch (record.state) {
    case 'in_progress': {
      if (!holds(record, lease)) {
        return { reply: { kind: 'lost', state: record.state, fence }, record: stored };
      }
      const { token, leaseUntil, fingerprint: own } = record;
      const base = { token, fence, fingerprint: own, attempt, takeovers, expiresAt };
      const after = { state, ...base, outcome };
      const kind = now >= leaseUntil ? 'ok_late' : 'ok';
      return { reply: { kind }, record: withNote(after, inFront(command.note, note)) };
    }
    case 'released': {
      // That attempt released the record, and this effect did happen. A late failure could hide another's effect.
      if (mine || state === 'failed') {
        return { reply: { kind: 'lost', state: record.state, fence }, record: stored };
      }
      const { token } = lease;
      const after = { state, token, fingerprint, attempt, takeovers, expiresAt, outcome };
      const highest = { ...after, fence: Math.max(fence, lease.fence) };
      return { reply: { kind: 'ok_late' }, record: withNote(highest, note) };
    }
    default:
      if (mine) return { reply: { kind: 'already' }, record: stored };
      // An outcome of other content must not answer this request.
      if (record.fingerprint !== fingerprint) {
        return { reply: { kind: 'lost', state: record.state, fence }, record: stored };
      }
      return {
        reply: { kind: 'superseded', state: record.state, outcome: record.outcome },
        record: stored,
      };
  }
}

export function release(
  stored: StoredRecord | undefined,
  lease: Lease,
  command: Store.Release,
  nowUs: number,
): Transition<Store.ReleaseReply> {
  const now = toMs(nowUs);
  const record = live(stored, now);
  const unchanged = (kind: Store.ReleaseReply['kind']) => ({ reply: { kind }, record: stored });
  if (record === undefined) return unchanged('gone');
  if (record.state === 'in_progress') {
    if (!holds(record, lease)) return unchanged('lost');
    const { token, fence, fingerprint, attempt, takeovers, note } = record;
    const expiresAt = now + command.tombstoneMs;
    const counters = { token, fence, fingerprint, attempt, takeovers, expiresAt };
    const after: ReleasedRecord = { state: 'released', ...counters };
    return { reply: { kind: 'ok' }, record: withNote(after, inFront(command.note, note)) };
  }
  if (record.token !== lease.token) return unchanged('lost');
  return unchanged(record.state === 'released' ? 'already' : 'not_in_progress');
}

export function inspect(
  stored: StoredRecord | undefined,
  nowUs: number,
): Store.IdempotencyRecord | undefined {
  const now = toMs(nowUs);
  const record = live(stored, now);
  if (record === undefined) return undefined;
  const { state, fence, attempt, takeovers, fingerprint, expiresAt } = record;
  const durations = { ageMs: now - toMs(fence), retentionLeftMs: expiresAt - now };
  const counters = { state, fence, attempt, takeovers, fingerprint, ...durations };
  const view = withNote(counters, record.note);
  switch (record.state) {
    case 'in_progress': {
      const leaseLeftMs = clampLease(record, now).leaseUntil - now;
      const { origin } = record;
      return origin === undefined ? { ...view, leaseLeftMs } : { ...view, leaseLeftMs, origin };
    }
    case 'released':
      return view;
    default:
      return { ...view, outcome: record.outcome };
  }
}

/** Whether a record is listed, whatever its key. */
export function isListed(
  record: Omit<Store.IdempotencyRecord, 'outcome'>,
  { states, lease, minAgeMs = -Infinity, notes }: Store.List,
): boolean {
  const { state, ageMs, leaseLeftMs, note = '' } = record;
  if (states?.includes(state) === false || ageMs < minAgeMs) return false;
  if (notes?.some((text) => note.includes(text)) === false) return false;
  if (lease === undefined) return true;
  return leaseLeftMs !== undefined && (lease === 'running') === leaseLeftMs > 0;
}

/** Changes a record for an operator, if it is still as he saw it. */
export function amend(
  stored: StoredRecord | undefined,
  command: Store.Amend,
  nowUs: number,
): Transition<Store.AmendReply> {
  const now = toMs(nowUs);
  const record = live(stored, now);
  const unchanged = (reply: Store.AmendReply) => ({ reply, record: stored });
  const { token, expected, change, evenIfRunning, notBefore } = command;
  // Also of a record that this command has made expire.
  if (stored?.token === token) return unchanged({ kind: 'already' });
  if (record === undefined) return unchanged({ kind: 'changed', state: 'absent', fence: 0 });
  const { state, fence } = record;
  if (state !== expected.state || fence !== expected.fence) {
    return unchanged({ kind: 'changed', state, fence });
  }
  const isFinished = state === 'completed' || state === 'failed';
  if (change.kind !== 'release' && isFinished !== (change.kind === 'keep')) {
    return unchanged({ kind: 'not_applicable' });
  }
  if (state === 'in_progress' && !evenIfRunning) {
    const leaseLeftMs = clampLease(record, now).leaseUntil - now;
    if (leaseLeftMs > 0) return unchanged({ kind: 'running', leaseLeftMs });
  }
  // 0 is no limit, also for a clock before 1970.
  if (notBefore !== 0 && now < notBefore) {
    return unchanged({ kind: 'too_fresh', leftMs: notBefore - now });
  }
  const amended = withNote(amendedRecord(record, command, now), command.note ?? record.note);
  return { reply: { kind: 'ok', fence: amended.fence }, record: amended };
}

function amendedRecord(
  record: StoredRecord,
  { token, change }: Store.Amend,
  now: number,
): StoredRecord {
  const { fingerprint, attempt, takeovers, expiresAt } = record;
  // An attempt that still runs loses the record: neither its token nor its fence fits any more.
  const owner = { token, fence: record.fence + 1, fingerprint, attempt };
  switch (change.kind) {
    case 'release': {
      const counted = takeovers + (change.isTakeover ? 1 : 0);
      const ends = { takeovers: counted, expiresAt: now + change.tombstoneMs };
      return { state: 'released', ...owner, ...ends };
    }
    case 'settle': {
      const { state, outcome, retentionMs } = change;
      return { state, ...owner, takeovers, expiresAt: now + retentionMs, outcome };
    }
    case 'keep': {
      const { outcome, retentionMs } = change;
      const kept = record as FinishedRecord;
      return {
        ...kept,
        outcome: outcome ?? kept.outcome,
        expiresAt: retentionMs === undefined ? expiresAt : now + retentionMs,
      };
    }
  }
}

/** Returns the record's origin, if it has one and its lease expired at least `overMs` ago. */
export function abandoned(
  stored: StoredRecord,
  overMs: number,
  nowUs: number,
): Transition<Pick<Store.AbandonedRecord, 'fingerprint' | 'origin'> | undefined> {
  const now = toMs(nowUs);
  const record = live(stored, now);
  if (record?.state !== 'in_progress' || record.origin === undefined) {
    return { reply: undefined, record: stored };
  }
  const { fingerprint, origin } = record;
  // Stored, because no request may ever use this key again.
  const clamped = clampLease(record, now);
  const isAbandoned = now - clamped.leaseUntil >= overMs;
  return { reply: isAbandoned ? { fingerprint, origin } : undefined, record: clamped };
}

/**
 * The state machine of one record, pure: (record, command, clock) → (reply, record). A function for each command of a
 * store, with `nowUs`, the store's clock in microseconds. This is the reference: the memory store and
 * {@link ConditionalStore} run it; Lua and SQL reimplement it, and a randomized differential test compares them with it.
 */
export const transitions = {
  begin,
  extend,
  complete,
  release,
  inspect,
  abandoned,
  isListed,
  amend,
};

function toMs(us: number): number {
  return Math.floor(us / 1000);
}

function live(stored: StoredRecord | undefined, now: number): StoredRecord | undefined {
  return stored !== undefined && stored.expiresAt > now ? stored : undefined;
}

function holds(record: { token: OwnerToken; fence: number }, lease: Lease): boolean {
  return (
    record.token === lease.token && (lease.fence === UNKNOWN_FENCE || record.fence === lease.fence)
  );
}

function acquire(
  previous: StoredRecord | undefined,
  command: Store.Begin,
  nowUs: number,
  how: { kind: 'acquired' | 'takeover'; attempt: number; takeovers: number },
): Transition<Store.BeginReply> {
  const now = toMs(nowUs);
  if (command.notAfter !== 0 && now > command.notAfter) {
    return { reply: { kind: 'late', now }, record: previous };
  }
  const { kind, attempt, takeovers } = how;
  const { token, fingerprint, leaseMs, origin } = command;
  const fence = Math.max((previous?.fence ?? 0) + 1, nowUs);
  const deadline = now + command.maxExecutionMs;
  // That of an expired record has expired with it.
  const earlierNote = attempt === 1 ? undefined : previous?.note;
  const reply = { kind, fence, now, attempt, takeovers };
  const record: InProgressRecord = {
    state: 'in_progress',
    token,
    fence,
    fingerprint,
    attempt,
    takeovers,
    leaseUntil: Math.min(now + leaseMs, deadline),
    leaseMs,
    deadline,
    expiresAt: now + command.recordRetentionMs,
    origin,
  };
  return {
    reply: kind === 'takeover' ? withNote(reply, earlierNote) : reply,
    record: withNote(record, begunNote(command.note, attempt === 1 ? undefined : previous)),
  };
}

/** In characters. What a store adds is cut to it. */
export const MAX_NOTE = 240;

/** What a command may give as a note. */
export const NOTE = /^[!-~]{1,240}$/;

/** A note that ends in `<` asks for what it replaces: see {@link Store.Begin.note}. */
function begunNote(
  note: string | undefined,
  previous: StoredRecord | undefined,
): string | undefined {
  if (previous === undefined || note === undefined) return note ?? previous?.note;
  if (!note.endsWith('<')) return note;
  const { fence, state, note: earlier = '' } = previous;
  const [ofAttempt = ''] = earlier.split(';', 1);
  const before = earlier.includes('<') ? earlier.slice(earlier.indexOf('<')) : '';
  const how = state === 'released' ? 'r' : 'i';
  const began = String(fence).slice(0, -3);
  return `${note}${began}${how}${ofAttempt}${before}`.slice(0, MAX_NOTE);
}

function inFront(given: string | undefined, note: string | undefined): string | undefined {
  return given === undefined ? note : `${given}${note ?? ''}`.slice(0, MAX_NOTE);
}

/** Without a note nothing is added: such a record costs nothing more. */
export function withNote<Value extends object>(
  value: Value,
  note: string | undefined,
): Value & { readonly note?: string } {
  return note === undefined ? value : { ...value, note };
}

function renew(
  record: InProgressRecord,
  leaseMs: number,
  recordRetentionMs: number,
  now: number,
): InProgressRecord {
  const leaseUntil = Math.min(now + leaseMs, record.deadline);
  return { ...record, leaseUntil, leaseMs, expiresAt: now + recordRetentionMs };
}

/** If the clock stepped back, the lease of a dead owner would otherwise last longer by the size of the step. */
function clampLease(record: InProgressRecord, now: number): InProgressRecord {
  const furthest = now + record.leaseMs;
  return record.leaseUntil > furthest ? { ...record, leaseUntil: furthest } : record;
}
