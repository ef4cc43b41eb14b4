import { createParamDecorator, type ExecutionContext } from '@nestjs/common';

/** The effects of one test of the suite, and its orders for them. */
export class Scenario {
  /** Requests that reached the guard. */
  arrivals = 0;
  /** The effects: the counted executions of a handler, whatever is reported. */
  executions = 0;
  /** Closed connections of its requests. */
  disconnects = 0;
  /** Callers who are no longer allowed to call. */
  readonly forbidden = new Set<string>();
  #gate: Promise<void> = Promise.resolve();
  #openGate: () => void = () => undefined;
  #timeOut: () => void = () => undefined;

  /** The effect. @returns its number, so that no two executions have the same response. */
  async execute(): Promise<number> {
    this.executions += 1;
    const execution = this.executions;
    await this.#gate;
    return execution;
  }

  /** Every execution from now on waits until the gate is open again. */
  closeGate(): void {
    this.#gate = new Promise((resolve) => {
      this.#openGate = resolve;
    });
  }

  openGate(): void {
    this.#openGate();
  }

  /** What a timeout waits for: the suite's order in place of a timer. */
  timeoutEnds(): Promise<void> {
    return new Promise((resolve) => {
      this.#timeOut = resolve;
    });
  }

  timeOut(): void {
    this.#timeOut();
  }
}

const scenarios = new Map<string, Scenario>();

/** The scenario with this name; it is created on first use. */
export function scenarioNamed(name: string): Scenario {
  const scenario = scenarios.get(name) ?? new Scenario();
  scenarios.set(name, scenario);
  return scenario;
}

export function scenarioOf(request: { headers: Record<string, unknown> }): Scenario {
  return scenarioNamed(String(request.headers['x-scenario']));
}

/** The scenario of the request. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext) =>
  scenarioOf(context.switchToHttp().getRequest()),
);
