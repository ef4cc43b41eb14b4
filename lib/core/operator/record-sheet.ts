import type { IdempotencyRecord } from '../record/commands.js';
import { annotationsIn, type RecordAnnotations } from '../record/annotations.js';
import { NOT_KEPT, type RecordKey, type RecordState } from '../record/record.js';
import { textOfMs } from './text-of-ms.js';
import type { OperatorAction } from './operator-options.js';

/** A record that an operator has looked at: nothing is done to one that he has not. */
export interface RecordRef {
  readonly recordKey: RecordKey;
  readonly expected: { readonly state: RecordState; readonly fence: number };
}

/** What an action would do to a record as it is. */
export interface PossibleAction {
  readonly action: OperatorAction;
  /** As a sentence. */
  readonly effect: string;
  /** Whether it needs `evenIfRunning`, because an attempt has the record. */
  readonly needsEvenIfRunning: boolean;
}

/** A record in sentences: what happened, what a retry gets now, what each action would do. */
export interface RecordSheet extends RecordRef {
  readonly record: Omit<IdempotencyRecord, 'outcome'>;
  /** Of the module option `annotate`. */
  readonly annotations: RecordAnnotations;
  readonly happened: string;
  readonly retry: string;
  /** Those that the record's state allows. */
  readonly actions: readonly PossibleAction[];
}

/** @param isKept - of a finished record, whether its response is kept; `undefined` if nobody has looked. */
export function sheetOf(
  recordKey: RecordKey,
  { outcome, ...record }: IdempotencyRecord,
  isKept = outcome && outcome.header !== NOT_KEPT.header,
): RecordSheet {
  const { state, fence } = record;
  const annotations = annotationsIn(record.note);
  return {
    recordKey,
    expected: { state, fence },
    record,
    annotations,
    happened: `${happenedTo(record, annotations, isKept)}${earlierThan(record, annotations)}`,
    retry: retryOf(record, isKept),
    actions: actionsOn(record),
  };
}

type Seen = RecordSheet['record'];

function isRunning({ leaseLeftMs = 0 }: Seen): boolean {
  return leaseLeftMs > 0;
}

/** When an attempt that the record tells of began, in milliseconds before now. */
export function agoOf({ fence, ageMs }: Seen, beganAt: number): number {
  return Math.floor(fence / 1_000) + ageMs - beganAt;
}

function earlierThan(record: Seen, { earlier }: RecordAnnotations): string {
  const sentences = earlier.map(({ beganAt, end, holder, tookMs }, at) => {
    const began = `attempt ${String(record.attempt - 1 - at)} began ${textOfMs(agoOf(record, beganAt))} ago${by(holder)}`;
    const ended =
      end === 'released'
        ? `the key was released${after(tookMs)}`
        : 'its lease ended without an outcome';
    return ` Before it, ${began}, and ${ended}.`;
  });
  return sentences.join('');
}

function by(holder: string | undefined): string {
  return holder === undefined ? '' : ` in ${holder}`;
}

function after(tookMs: number | undefined): string {
  return tookMs === undefined ? '' : ` after ${textOfMs(tookMs)}`;
}

function happenedTo(
  record: Seen,
  { holder, tookMs }: RecordAnnotations,
  isKept: boolean | undefined,
): string {
  const { state, attempt, ageMs, leaseLeftMs = 0, retentionLeftMs, takeovers } = record;
  const began = `Attempt ${String(attempt)} began ${textOfMs(ageMs)} ago${by(holder)}`;
  switch (state) {
    case 'in_progress':
      return isRunning(record)
        ? `${began} and is running: its lease lasts another ${textOfMs(leaseLeftMs)} unless it is extended.`
        : `${began}, and its lease ended ${textOfMs(-leaseLeftMs)} ago without an outcome: its process died, hangs or cannot reach the store. Whether it had its effect is unknown. Nobody has taken over.`;
    case 'completed':
    case 'failed': {
      const how = state === 'completed' ? 'succeeded' : 'failed';
      const kept =
        isKept === false ? 'That it is done is kept, its response is not' : 'Its outcome is kept';
      return `${began} and ${how}${after(tookMs)}. ${kept}, for another ${textOfMs(retentionLeftMs)}.`;
    }
    case 'released': {
      const earlier = takeovers > 0 ? ' Whether an earlier attempt had its effect is unknown.' : '';
      return `${began}, and the key was released${after(tookMs)}.${earlier}`;
    }
  }
}

function retryOf(record: Seen, isKept: boolean | undefined): string {
  const { state, attempt, takeovers } = record;
  const next = `runs the operation as attempt ${String(attempt + 1)}`;
  const takeover =
    'as a takeover: "lease.onTakeover" decides whether it runs, is asked what was done, or is rejected with 409 (outcome-unknown)';
  switch (state) {
    case 'in_progress':
      return isRunning(record)
        ? 'A retry is rejected with 409 (in-progress), or waits where "duplicates" is "wait".'
        : `The next retry ${next}, ${takeover}.`;
    case 'completed':
    case 'failed':
      return isKept === false
        ? 'A retry is rejected with 409 (response-not-kept), and nothing runs.'
        : 'A retry with the same content gets the stored outcome, if its response was kept; one with other content is rejected with 422 (key-reused).';
    case 'released':
      return `The next retry ${next}${takeovers > 0 ? `, ${takeover}` : ''}.`;
  }
}

const OWNER_LOSES =
  ' The attempt that has the record loses it: its signal is aborted, and its success is stored only if no other is.';

function actionsOn(record: Seen): PossibleAction[] {
  const needsEvenIfRunning = isRunning(record);
  const possible = (action: OperatorAction, effect: string) => ({
    action,
    effect: needsEvenIfRunning ? effect + OWNER_LOSES : effect,
    needsEvenIfRunning,
  });
  const complete = possible(
    'complete',
    'The operation counts as done. Its response is not kept: each retry is rejected with 409 (response-not-kept), and nothing runs.',
  );
  switch (record.state) {
    case 'in_progress':
      return [
        possible(
          'release',
          'The next retry runs the operation, as a takeover unless nothing happened.',
        ),
        complete,
      ];
    case 'released':
      return [
        complete,
        possible(
          'delete',
          'The record is gone at once: the next retry runs the operation as a first request.',
        ),
      ];
    default:
      return [
        possible('reopen', 'The outcome is dropped, and the next retry runs the operation again.'),
        possible(
          'redact',
          'The response is dropped: each retry is rejected with 409 (response-not-kept), and nothing runs.',
        ),
        possible('retain', 'The outcome is replayed for another duration, from now.'),
        possible(
          'delete',
          'The outcome is dropped and the record gone at once: the next retry runs the operation as a first request.',
        ),
      ];
  }
}
