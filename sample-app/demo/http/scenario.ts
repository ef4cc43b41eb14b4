import type { ApiProcess } from '../processes/api-process.js';
import type { PaymentResponse } from './client.js';
import type { DemoEnvironment } from './environment.js';

/** What the scenarios share: the two processes, and the first responses to the payments. */
export interface ScenarioContext {
  readonly environment: DemoEnvironment;
  readonly apis: [ApiProcess, ApiProcess];
  /** The first response's body by idempotency key. */
  readonly firstBodies: Map<string, string>;
}

/** Distributes requests to both processes. */
export function sequentially(apis: ScenarioContext['apis'], index: number): ApiProcess {
  return index % 2 === 0 ? apis[0] : apis[1];
}

export interface Observation {
  readonly responses: readonly PaymentResponse[];
  /** What must hold besides the number of charges, in words that fit after "not:". */
  readonly checks: Readonly<Record<string, boolean>>;
}

export interface Scenario {
  readonly title: string;
  /** How many charges it must add to the ledger. */
  readonly charges: number;
  /** What it shows when it passes. */
  readonly lesson: string;
  run(context: ScenarioContext): Promise<Observation>;
}
