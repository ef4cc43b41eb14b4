import type { Attempt } from '../operation/attempt.js';
import type { RejectionReason } from '../record/events.js';
import type { FinishedState, Outcome } from '../record/record.js';

export type Decision =
  | { readonly kind: 'run'; readonly attempt: Attempt }
  | { readonly kind: 'replay'; readonly state: FinishedState; readonly outcome: Outcome }
  | { readonly kind: 'reject'; readonly reason: RejectionReason };

export function rejectDecision(reason: RejectionReason): Decision {
  return { kind: 'reject', reason };
}

export function isInProgress(decision: Decision): boolean {
  return decision.kind === 'reject' && decision.reason === 'in_progress';
}
