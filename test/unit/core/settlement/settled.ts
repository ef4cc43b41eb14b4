import {
  INITIAL_STATE,
  settle,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
  type SettlementState,
  type OutcomeSummary,
} from '../../../support/internals/core.js';

const http = {
  successSummary: { status: 200 },
  keeps: ({ status = 200 }: OutcomeSummary) => status < 500,
};

/** The kinds of attempts. A native handler has no transaction. */
export const RULES = {
  ordinary: { isNative: false, isTransactional: false, ...http },
  native: { isNative: true, isTransactional: false, ...http },
  transactional: { isNative: false, isTransactional: true, ...http },
} satisfies Record<string, SettlementRules>;

/** The state after `signals`, by `decide`. */
export function after(
  rules: SettlementRules,
  signals: readonly SettlementSignal[],
  decide = settle,
): SettlementState {
  return signals.reduce((state, signal) => decide(state, signal, rules).state, INITIAL_STATE);
}

/** The effects of a sequence of signals. A signal without properties is given by its kind. */
export function effectsOf(
  signals: readonly (string | SettlementSignal)[],
  rules: SettlementRules = RULES.ordinary,
  decide = settle,
): string[] {
  const all = signals.map((signal) =>
    typeof signal === 'string' ? ({ kind: signal } as SettlementSignal) : signal,
  );
  return all
    .map((signal, i) => named(decide(after(rules, all.slice(0, i), decide), signal, rules).effect))
    .filter(Boolean);
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
    case 'release':
      return effect.isUndone === true ? 'release, undone' : 'release';
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
