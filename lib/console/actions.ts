import type { ActionResult } from '../core/operator/operator.js';
import type { OperatorAction } from '../core/operator/operator-options.js';

export const ACTIONS = [
  'release',
  'complete',
  'reopen',
  'redact',
  'retain',
  'delete',
] as const satisfies readonly OperatorAction[];

/** What can be done to several abandoned records at once. */
export const BULK = ['complete', 'release'] as const satisfies readonly OperatorAction[];

/** What an operator has to type of the record's key where an effect may happen again. */
export const TYPED = 6;

/** After these the operation runs again though it was done. */
export const DROPPING: readonly OperatorAction[] = ['reopen', 'delete'];

export const LABELS: Readonly<Record<OperatorAction, string>> = {
  release: 'Release',
  complete: 'Complete',
  reopen: 'Reopen',
  redact: 'Redact',
  retain: 'Keep for longer or shorter',
  delete: 'Delete',
};

const RESULTS: Readonly<Record<ActionResult['kind'], string>> = {
  ok: 'It is done.',
  already: 'It was done before, by a copy of this act.',
  changed: 'Nothing was done: the record is no longer what you saw. Look at it again.',
  running: 'Nothing was done: an attempt has the record.',
  too_fresh:
    'Nothing was done: the outcome was stored just now, and a late copy of its command could store it again. Try again later.',
  not_applicable: 'Nothing was done: it does not apply to a record in this state.',
};

export function resultWords({ kind, isAudited }: Pick<ActionResult, 'kind' | 'isAudited'>): string {
  const words = RESULTS[kind];
  return isAudited
    ? words
    : `${words} The audit failed after the act: it has the intent, but not the result.`;
}
