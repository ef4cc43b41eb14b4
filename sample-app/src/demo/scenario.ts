import type { ApiProcess } from './api-process.js';
import type { Answer } from './client.js';
import type { Stage } from './stage.js';

/** What the scenarios share: the two processes, and the first responses to the payments. */
export interface Play {
  readonly stage: Stage;
  readonly apis: [ApiProcess, ApiProcess];
  /** The first response's body by idempotency key. */
  readonly firstBodies: Map<string, string>;
}

/** Distributes requests to both processes. */
export function inTurn(apis: Play['apis'], index: number): ApiProcess {
  return index % 2 === 0 ? apis[0] : apis[1];
}

export interface Observation {
  readonly answers: readonly Answer[];
  /** What must hold besides the number of charges, in words that fit after "not:". */
  readonly claims: Readonly<Record<string, boolean>>;
}

export interface Scenario {
  readonly title: string;
  /** How many charges it must add to the ledger. */
  readonly charges: number;
  /** What it shows when it passes. */
  readonly moral: string;
  play(play: Play): Promise<Observation>;
}
