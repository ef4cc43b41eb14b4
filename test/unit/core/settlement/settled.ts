import {
  INITIAL_STATE,
  settle,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
  type SettlementState,
} from '../../../support/internals/core/engine.js';

const keeps: SettlementRules['keeps'] = ({ status = 200 }) => status < 500;

/** The kinds of attempts. A native handler has no transaction. */
export const RULES = {
  ordinary: { isNative: false, isTransactional: false, keeps },
  native: { isNative: true, isTransactional: false, keeps },
  transactional: { isNative: false, isTransactional: true, keeps },
} satisfies Record<string, SettlementRules>;

/** The state after `signals`, by `decide`. */
export function after(
  rules: SettlementRules,
  signals: readonly SettlementSignal[],
  decide = settle,
): SettlementState {
  return signals.reduce((state, signal) => decide(state, signal, rules).state, INITIAL_STATE);
}

/** An effect as the table has it. */
export function named(effect: SettlementEffect | undefined): string {
  if (effect === undefined) return '';
  switch (effect.kind) {
    case 'complete': {
      const { state, isResponseKept, undo, hasDiverged } = effect;
      const response = isResponseKept ? '' : ' without response';
      return `keep ${state}${response}${undo ? ', undone' : ''}${hasDiverged ? ', diverged' : ''}`;
    }
    case 'wait':
      return `wait ${effect.ms / 1_000} s`;
    default:
      return effect.kind;
  }
}

/** Whether the effect settles the record. */
export function settles(effect: SettlementEffect | undefined): boolean {
  return effect !== undefined && ['complete', 'commit', 'release'].includes(effect.kind);
}
