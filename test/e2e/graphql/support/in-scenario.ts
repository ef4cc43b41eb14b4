import type { IncomingMessage } from 'node:http';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { scenarioOf, type Scenario } from '../../../support/http/scenario.js';

interface RequestInContext {
  readonly req: IncomingMessage & { user?: object };
}

/** The request in a resolver's context, as the Apollo driver sets it. */
export function requestIn(context: ExecutionContext): RequestInContext['req'] {
  return context.getArgByIndex<RequestInContext>(2).req;
}

/** The scenario of the document. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext): Scenario =>
  scenarioOf(requestIn(context)),
);
