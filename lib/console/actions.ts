import type { OperatorAction } from '../core/operator/operator-options.js';

export const ACTIONS = [
  'release',
  'complete',
  'reopen',
  'redact',
  'retain',
  'delete',
] as const satisfies readonly OperatorAction[];

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
