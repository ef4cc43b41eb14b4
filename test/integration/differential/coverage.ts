import type { StoredRecord } from '../../support/internals/core.js';
import type { Fields } from './encoding.js';
import type { Step } from './step.js';

const STATES = ['absent', 'in_progress', 'completed', 'failed', 'released'];

/** Every reply of every operation, and situations that a reply does not show. */
const MUST_OCCUR = [
  ...['acquired', 'owned', 'takeover', 'in_progress', 'abandoned', 'completed', 'failed'],
  ...['mismatch', 'stale_begin', 'late'],
]
  .map((reply) => `begin ${reply}`)
  .concat(
    ['ok', 'revived', 'max_execution', 'lost', 'gone', 'not_in_progress'].map((r) => `extend ${r}`),
    ['ok', 'ok_late', 'already', 'restored', 'gone'].map((reply) => `complete ${reply}`),
    ['superseded completed', 'superseded failed'].map((reply) => `complete ${reply}`),
    ['in_progress', 'released', 'completed', 'failed'].map((state) => `complete lost ${state}`),
    ['ok', 'already', 'not_in_progress', 'lost', 'gone'].map((reply) => `release ${reply}`),
    STATES.map((state) => `inspect ${state}`),
    ['ok', 'already', 'not_applicable', 'running', 'too_fresh'].map((reply) => `amend ${reply}`),
    STATES.map((state) => `amend changed ${state}`),
    STATES.map((state) => `list ${state}`),
    ['release', 'settle', 'keep'].map((kind) => `${kind} ok`),
    ['begin in_progress, lease clamped', 'begin acquired over an expired record'],
    ['begin acquired after a release', 'begin late instead of a takeover'],
    ['complete ok_late after a release', 'complete restored over an expired record'],
    ['a failure that is gone although restore was requested'],
    ['a fence of previous + 1', 'a command with fence 0'],
    ['a takeover without a note of a record with one', 'complete ok of a record with a note'],
    ['a takeover that writes what it replaces', 'an acquisition that does so after a release'],
    ['complete ok with a note', 'release ok with a note'],
    ['complete ok of an extended record', 'complete ok of a record past its hard deadline'],
  );

/** Counts what occurred, to detect a generator that misses situations. */
export class Coverage {
  private readonly counts = new Map<string, number>(MUST_OCCUR.map((name) => [name, 0]));

  readonly watch = (step: Step, reply: Fields, before: StoredRecord | undefined): void => {
    const [kind = '', detail = ''] = reply;
    if (step.operation === 'amend' && kind === 'ok') this.count(`${step.command.change.kind} ok`);
    const detailed =
      kind === 'superseded' || kind === 'changed' || (kind === 'lost' && detail !== '');
    this.count(`${step.operation} ${detailed ? `${kind} ${detail}` : kind}`);
    if ('lease' in step && step.lease.fence === 0) this.count('a command with fence 0');
    if (kind === 'gone' && step.operation === 'complete' && step.command.whenGone === 'restore') {
      this.count('a failure that is gone although restore was requested');
    }
    if (before !== undefined) this.watchRecord(step, kind, Number(detail), before);
  };

  /** What occurred fewer than `times` times, with its count. */
  missing(times: number): Record<string, number> {
    return Object.fromEntries([...this.counts].filter(([, count]) => count < times));
  }

  private watchRecord(step: Step, kind: string, detail: number, before: StoredRecord): void {
    const now = Math.floor(step.nowUs / 1000);
    const expired = before.expiresAt <= now;
    if (expired) {
      if (kind === 'acquired') this.count('begin acquired over an expired record');
      if (kind === 'restored') this.count('complete restored over an expired record');
    }
    if (before.state === 'released' && !expired) {
      if (kind === 'acquired') this.count('begin acquired after a release');
      if (kind === 'ok_late') this.count('complete ok_late after a release');
    }
    if (before.state === 'in_progress' && !expired) {
      if (kind === 'late') this.count('begin late instead of a takeover');
      if (
        step.operation === 'begin' &&
        kind === 'in_progress' &&
        before.leaseUntil > now + detail
      ) {
        this.count('begin in_progress, lease clamped');
      }
    }
    if (before.state === 'in_progress' && step.operation === 'complete' && kind.startsWith('ok')) {
      if (before.note !== undefined) this.count('complete ok of a record with a note');
      if (before.deadline <= now) this.count('complete ok of a record past its hard deadline');
      // A record that has not been extended counts from its fence.
      const since = before.leaseUntil - before.leaseMs;
      if (since > Math.floor(before.fence / 1000)) this.count('complete ok of an extended record');
    }
    if (kind.startsWith('ok') && (step.operation === 'complete' || step.operation === 'release')) {
      const isOwn = before.state === 'in_progress' && step.command.note !== undefined;
      if (isOwn) this.count(`${step.operation} ok with a note`);
    }
    if (step.operation === 'begin' && !expired && step.command.note?.endsWith('<') === true) {
      if (kind === 'takeover') this.count('a takeover that writes what it replaces');
      if (kind === 'acquired') this.count('an acquisition that does so after a release');
    }
    if (kind === 'takeover' && step.operation === 'begin') {
      const keepsNote = before.note !== undefined && step.command.note === undefined;
      if (keepsNote) this.count('a takeover without a note of a record with one');
    }
    const acquiring = kind === 'acquired' || kind === 'takeover';
    if (acquiring && detail === before.fence + 1 && detail !== step.nowUs) {
      this.count('a fence of previous + 1');
    }
  }

  private count(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }
}
