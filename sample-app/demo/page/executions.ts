import type { AttemptEnd, Report } from './reports.js';

/** One attempt at an order, as its process has reported it. */
export interface Execution {
  /** The name of the process. */
  readonly process: string;
  readonly attempt: number;
  readonly isTakeover: boolean;
  readonly beganAt: number;
  endedAt?: number;
  how?: AttemptEnd | 'killed';
}

/** A page shows one order, the last one. */
const KEPT_ORDERS = 1000;

/** The executions of each record, in the order in which they began. */
export class Executions {
  readonly #byRecord = new Map<string, Execution[]>();

  add(process: string, report: Extract<Report, { type: 'began' | 'ended' }>): void {
    const ofRecord = this.#of(report.recordKey);
    if (report.type === 'began') {
      const { attempt, isTakeover, at } = report;
      ofRecord.push({ process, attempt, isTakeover, beganAt: at });
    } else {
      const ended = ofRecord.find(({ attempt }) => attempt === report.attempt);
      if (ended !== undefined) Object.assign(ended, { endedAt: report.at, how: report.how });
    }
  }

  /** Ends what a process had begun when it was killed. */
  endAllOf(process: string): void {
    const cutOff = [...this.#byRecord.values()]
      .flat()
      .filter((execution) => execution.process === process && execution.endedAt === undefined);
    for (const execution of cutOff) {
      Object.assign(execution, { endedAt: Date.now(), how: 'killed' });
    }
  }

  of(recordKey: string): readonly Execution[] {
    return this.#byRecord.get(recordKey) ?? [];
  }

  #of(recordKey: string): Execution[] {
    const known = this.#byRecord.get(recordKey);
    if (known !== undefined) return known;
    const [oldest] = this.#byRecord.keys();
    if (oldest !== undefined && this.#byRecord.size === KEPT_ORDERS) this.#byRecord.delete(oldest);
    const added: Execution[] = [];
    this.#byRecord.set(recordKey, added);
    return added;
  }
}
