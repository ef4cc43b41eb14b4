import {
  INITIAL_STATE,
  settle,
  type SettlementEffect,
  type SettlementRules,
  type SettlementSignal,
} from './http-settlement.js';

type Report = (difference: string) => void;

const REPORT = Symbol.for('nestjs-idempotency.settlement-differs');

/** Compares what `HttpExecution` decides with what {@link settle} decides. Only tests install a report. */
export class SettlementShadow {
  private state = INITIAL_STATE;
  private decided: SettlementEffect[] = [];

  private constructor(
    private readonly rules: SettlementRules,
    private readonly report: Report,
  ) {}

  static of(rules: SettlementRules): SettlementShadow | undefined {
    const report = (globalThis as { [REPORT]?: Report })[REPORT];
    return report && new SettlementShadow(rules, report);
  }

  /** What the execution has decided since the last signal. */
  decides(effect: SettlementEffect): void {
    this.decided.push(effect);
  }

  signal(signal: SettlementSignal): void {
    const before = this.state;
    const { state, effect } = settle(before, signal, this.rules);
    this.state = state;
    const { decided } = this;
    this.decided = [];
    // After the settlement there is nothing to hold a response back for.
    if (before.phase === 'settled' && effect?.kind === 'pass' && decided[0]?.kind === 'hold')
      return;
    const [is, should] = [decided, effect === undefined ? [] : [effect]].map((list) =>
      JSON.stringify(list.map((each) => Object.entries(each).sort())),
    );
    if (is === should) return;
    const { kind } = signal;
    this.report(`${kind} in ${before.phase}: HttpExecution ${is ?? ''}, settle() ${should ?? ''}`);
  }
}
