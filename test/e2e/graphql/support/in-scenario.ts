import type { IncomingMessage } from 'node:http';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { scenarioOf, type Scenario } from '../../../support/http/scenario.js';

interface RequestInContext {
  readonly req: IncomingMessage & { user?: object };
}

/** The request of a resolver's context, as Apollo's driver puts it there. */
export function requestIn(context: ExecutionContext): RequestInContext['req'] {
  return context.getArgByIndex<RequestInContext>(2).req;
}

/** The scenario that the document belongs to. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext): Scenario =>
  scenarioOf(requestIn(context)),
);
