import type { ApiProcess } from './api-process.js';
import type { Answer } from './client.js';
import type { Stage } from './stage.js';

/** What the scenarios share: the two processes, and what the payments were answered at first. */
export interface Play {
  readonly stage: Stage;
  readonly apis: [ApiProcess, ApiProcess];
  /** The first answer's body by idempotency key. */
  readonly firstBodies: Map<string, string>;
}

/** Deals requests out to both processes. */
export function inTurn(apis: Play['apis'], index: number): ApiProcess {
  return index % 2 === 0 ? apis[0] : apis[1];
}

export interface Observation {
  readonly answers: readonly Answer[];
  /** What must hold besides the number of charges, in words that make sense after "not:". */
  readonly claims: Readonly<Record<string, boolean>>;
}

export interface Scenario {
  readonly title: string;
  /** How many charges it must add to the ledger. */
  readonly charges: number;
  /** What it shows, if all is well. */
  readonly moral: string;
  play(play: Play): Promise<Observation>;
}
