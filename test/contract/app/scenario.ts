import { createParamDecorator, type ExecutionContext } from '@nestjs/common';

/** What was done on behalf of one story of the suite, and what the suite has ordered for it. */
export class Scenario {
  /** Requests that came as far as the guard. */
  arrivals = 0;
  /** The effects: how often a handler ran, whatever anybody says about it. */
  executions = 0;
  /** Connections of its requests that are gone. */
  departures = 0;
  /** Callers who have lost the right to call. */
  readonly forbidden = new Set<string>();
  #gate: Promise<void> = Promise.resolve();
  #openGate: () => void = () => undefined;
  #losePatience: () => void = () => undefined;

  /** The effect. @returns its number, so that no two executions give the same answer. */
  async execute(): Promise<number> {
    this.executions += 1;
    const execution = this.executions;
    await this.#gate;
    return execution;
  }

  /** Whoever executes from now on waits until the gate is open again. */
  closeGate(): void {
    this.#gate = new Promise((resolve) => {
      this.#openGate = resolve;
    });
  }

  openGate(): void {
    this.#openGate();
  }

  /** What a timeout waits for: the suite's word in place of a timer. */
  patienceEnds(): Promise<void> {
    return new Promise((resolve) => {
      this.#losePatience = resolve;
    });
  }

  losePatience(): void {
    this.#losePatience();
  }
}

const scenarios = new Map<string, Scenario>();

/** The one with this name; there is none that was not asked for. */
export function scenarioNamed(name: string): Scenario {
  const scenario = scenarios.get(name) ?? new Scenario();
  scenarios.set(name, scenario);
  return scenario;
}

export function scenarioOf(request: { headers: Record<string, unknown> }): Scenario {
  return scenarioNamed(String(request.headers['x-scenario']));
}

/** The scenario that the request belongs to. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext) =>
  scenarioOf(context.switchToHttp().getRequest()),
);
