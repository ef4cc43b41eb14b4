import type { Step } from '../../test/integration/differential/step.js';
import { expected } from '../../test/integration/differential/subjects/reference.js';
import type {
  AmendedRecord,
  Fingerprint,
  Outcome,
  OwnerToken,
  StoredRecord,
} from '../../test/support/internals/core.js';
import type { ModelRecord, ModelStep } from './model-steps.js';

// Far ahead of any real clock: Redis itself expires nothing while a test runs.
const START_MS = 2_500_000_000_000;
const TICK_MS = 1_000;
const LEASE_MS = 60_000;
const MAX_EXECUTION_MS = 36_000_000;
/** The records of the model do not expire. */
const RETENTION_MS = 1e9;

/** The fences of the table: none, an older one, the record's, a newer one. Its clock has ticked since the third. */
const GIVEN_FENCES = [0, 3, 5, 7];
const GIVEN_TICK = 6;

/**
 * Takes the steps of the model with the reference state machine. An attempt of the model has an owner token, a content a
 * fingerprint, a tick an instant of the store's clock. It compares replies and records, except for what the model does
 * not have: counters, durations, notes and origins.
 */
export class Replay {
  /** The commands, with everything that they depend on. */
  readonly taken: Step[] = [];
  private stored: StoredRecord | undefined;
  private nowMs = START_MS;
  /** The fencing token for a tick. */
  private readonly fences = new Map([[0, 0]]);

  /** @returns the difference, if any. After it, the two have no common history. */
  take(step: ModelStep): string | undefined {
    const { name, record } = step;
    if (name === 'given') this.set(record);
    // Only what is in progress has these two.
    else if (name === 'lease') this.nowMs = this.ofLease('leaseUntil');
    else if (name === 'deadline') this.nowMs = this.ofLease('deadline');
    else return this.send(step);
    return differenceBetween(this.view(record), record);
  }

  /** Where the model has no record, the store may still have an expired one: of attempt 2, with its content 1. */
  expire(state: StoredRecord['state']): void {
    const kept = state === 'completed' || state === 'failed' ? 2 : 0;
    this.set({ state, own: 2, fence: 5, kept, content: 1, over: 1, overdue: 1 }, this.nowMs);
  }

  private set(given: ModelRecord, expiresAt?: number): void {
    this.nowMs = START_MS + GIVEN_TICK * TICK_MS;
    this.fences.clear();
    for (const tick of GIVEN_FENCES) this.fences.set(tick, instantOf(tick));
    this.stored = this.recordOf(given, expiresAt ?? this.nowMs + 1);
  }

  private recordOf(given: ModelRecord, expiresAt: number): StoredRecord | undefined {
    const { own, fence, kept, content, over, overdue } = given;
    const state = given.state as StoredRecord['state'] | 'absent';
    if (state === 'absent') return undefined;
    const base = {
      token: tokenOf(own),
      fence: this.fences.get(fence)!,
      fingerprint: fingerprintOf(content),
      attempt: 1,
      takeovers: 0,
      expiresAt,
    };
    if (state === 'released') return { ...base, state };
    if (state !== 'in_progress') return { ...base, state, outcome: outcomeOf(kept) };
    const leaseUntil = over === 1 ? this.nowMs : this.nowMs + 1;
    const deadline = overdue === 1 ? this.nowMs : this.nowMs + LEASE_MS;
    return { ...base, state, leaseUntil, leaseMs: LEASE_MS, deadline, origin: undefined };
  }

  private ofLease(instant: 'leaseUntil' | 'deadline'): number {
    return this.stored?.state === 'in_progress' ? this.stored[instant] : this.nowMs;
  }

  private send(step: ModelStep): string | undefined {
    const command = this.commandOf(step);
    const { reply = [], record } = expected(this.stored, command);
    this.taken.push(command);
    this.stored = record;
    const found = this.view(step.record);
    const got = essenceOf(reply).join(' ');
    const wanted = this.replyTo(step).join(' ');
    this.nowMs += 1;
    if (got !== wanted) return `the code replies ${got}, the model ${wanted}`;
    return differenceBetween(found, step.record);
  }

  private commandOf({ name, args }: ModelStep): Step {
    const nowUs = this.nowMs * 1_000;
    const { token = 0, content = 0, fence = 0, late, allow } = args;
    const lease = { token: tokenOf(token), fence: this.fences.get(fence)! };
    const fingerprint = fingerprintOf(content);
    const renewal = { leaseMs: LEASE_MS, recordRetentionMs: RETENTION_MS };
    switch (name) {
      case 'begin': {
        const notAfter = late === 1 ? this.nowMs - 1 : this.nowMs;
        const onExpiredLease = allow === 1 ? ('takeover' as const) : ('deny' as const);
        const limits = { ...renewal, maxExecutionMs: MAX_EXECUTION_MS, notAfter };
        const command = { token: lease.token, fingerprint, ...limits, onExpiredLease };
        return { operation: 'begin', nowUs, command };
      }
      case 'extend':
        return { operation: 'extend', nowUs, lease, command: renewal };
      case 'release':
        return { operation: 'release', nowUs, lease, command: { tombstoneMs: RETENTION_MS } };
      case 'completed':
      case 'failed': {
        const finished = { state: name, outcome: outcomeOf(token), retentionMs: RETENTION_MS };
        const command = { ...finished, fingerprint, whenGone: 'restore' } as const;
        return { operation: 'complete', nowUs, lease, command };
      }
      case 'amend': {
        const { seen = 0, force = 0, change = 0 } = args;
        const command = {
          token: lease.token,
          expected: { state: SEEN[seen] ?? 'released', fence: lease.fence },
          change: changeOf(change, token),
          evenIfRunning: force === 1,
          notBefore: 0,
        };
        return { operation: 'amend', nowUs, command };
      }
      default:
        return { operation: 'lose', nowUs };
    }
  }

  /** The reply of the model, as {@link essenceOf} has it. */
  private replyTo({ name, reply, replied, record }: ModelStep): readonly string[] {
    if (reply === undefined) return [];
    if (reply === 'stale') return ['changed'];
    const fence = String(this.fences.get(record.fence));
    if (HAS_FENCE.has(reply)) return [reply, fence];
    if (name === 'begin' && HAS_OUTCOME.has(reply)) return [reply, bodyOf(replied)];
    if (reply === 'superseded') return [reply, record.state, bodyOf(replied)];
    const isOfComplete = name === 'completed' || name === 'failed';
    return reply === 'lost' && isOfComplete ? [reply, record.state, fence] : [reply];
  }

  /** The code's record in the words of the model. A fence that the model has just taken from the clock is that of the code. */
  private view({ fence: tick }: ModelRecord): ModelRecord {
    const record = this.stored;
    if (record === undefined || record.expiresAt <= this.nowMs) return ABSENT;
    const { state, token, fence, fingerprint } = record;
    if (!this.fences.has(tick) && this.isInOrder(tick, fence)) this.fences.set(tick, fence);
    return {
      state,
      own: numberIn(token),
      fence: [...this.fences].find(([, each]) => each === fence)?.[0] ?? NaN,
      kept: 'outcome' in record ? numberIn(textOf(record.outcome)) : 0,
      content: numberIn(fingerprint),
      over: Number(state === 'in_progress' && record.leaseUntil <= this.nowMs),
      overdue: Number(state === 'in_progress' && record.deadline <= this.nowMs),
    };
  }

  private isInOrder(tick: number, fence: number): boolean {
    return [...this.fences].every(([each, its]) => its !== fence && each < tick === its < fence);
  }
}

/** Takes the steps up to the first difference. */
export function replay(steps: readonly ModelStep[]) {
  const code = new Replay();
  for (const [at, step] of steps.entries()) {
    const difference = code.take(step);
    if (difference === undefined) continue;
    const until = steps.slice(0, at + 1).map((each) => JSON.stringify(each));
    return { taken: code.taken, difference: [...until, difference].join('\n') };
  }
  return { taken: code.taken, difference: undefined };
}

const ABSENT = { state: 'absent', own: 0, fence: 0, kept: 0, content: 0, over: 0, overdue: 0 };
const HAS_FENCE = new Set(['acquired', 'takeover', 'owned', 'abandoned']);
const HAS_OUTCOME = new Set(['completed', 'failed']);

/** The kind of a reply, and those of its fields that the model has. */
function essenceOf([kind = '', first = '', ...rest]: readonly string[]): readonly string[] {
  if (HAS_FENCE.has(kind)) return [kind, first];
  if (HAS_OUTCOME.has(kind)) return [kind, rest.at(-1)!];
  if (kind === 'superseded') return [kind, first, rest.at(-1)!];
  return kind === 'lost' && first !== '' ? [kind, first, ...rest] : [kind];
}

/** As the model numbers what an operator saw. */
const SEEN: readonly (StoredRecord['state'] | undefined)[] = [
  ...([undefined, 'in_progress', 'completed', 'failed', 'released'] as const),
];

function changeOf(change: number, token: number): AmendedRecord {
  if (change === 0) return { kind: 'release', tombstoneMs: RETENTION_MS, isTakeover: true };
  const state = change === 1 ? 'completed' : 'failed';
  return { kind: 'settle', state, outcome: outcomeOf(token), retentionMs: RETENTION_MS };
}

function differenceBetween(code: ModelRecord, model: ModelRecord): string | undefined {
  const names = Object.keys(model) as (keyof ModelRecord)[];
  const differing = names.filter((name) => code[name] !== model[name]);
  if (differing.length === 0) return undefined;
  const list = (record: ModelRecord) =>
    differing.map((name) => `${name} ${record[name]}`).join(', ');
  return `the code's record has ${list(code)}, the model's ${list(model)}`;
}

function instantOf(tick: number): number {
  return tick === 0 ? 0 : (START_MS + tick * TICK_MS) * 1_000;
}

function tokenOf(attempt: number): OwnerToken {
  return `attempt-${attempt}` as OwnerToken;
}

function fingerprintOf(content: number): Fingerprint {
  return `content-${content}` as Fingerprint;
}

function bodyOf(attempt: number): string {
  return `outcome-${attempt}`;
}

function outcomeOf(attempt: number): Outcome {
  return { header: '', body: Buffer.from(bodyOf(attempt)) };
}

function textOf({ body }: Outcome): string {
  return Buffer.from(body).toString();
}

function numberIn(name: string): number {
  return Number(name.split('-')[1]);
}
