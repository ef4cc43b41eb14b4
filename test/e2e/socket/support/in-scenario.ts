import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { SCENARIO_HEADER, scenarioOf, type Scenario } from '../../../support/http/scenario.js';

interface TestPayload {
  readonly scenario: string;
}

/** The scenario of a message. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext) =>
  scenarioIn(context),
);

export function scenarioIn(context: ExecutionContext): Scenario {
  const { scenario } = context.switchToWs().getData<TestPayload>();
  return scenarioOf({ headers: { [SCENARIO_HEADER]: scenario } });
}

/** A payload of the scenario, with its key and the given members. */
export function payloadOf({ id, key }: Scenario, more: object = {}): object {
  return { scenario: id, idempotencyKey: key, amount: 1200, ...more };
}
