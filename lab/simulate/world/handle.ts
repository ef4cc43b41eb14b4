import {
  executionScope,
  InnerScope,
  type ExecutionScope,
} from '../../../test/support/internals/core.js';
import type { OutcomeBody, SimulatedRequest } from './request.js';

/** What `@Idempotent()` makes of a handler's method: it reports its entry and its end. */
export async function handle(
  request: SimulatedRequest,
  scope: ExecutionScope,
): Promise<OutcomeBody> {
  return scope.start(async (found) => {
    scope.enter();
    try {
      const body =
        found === 'run'
          ? await executionScope.run(new InnerScope(scope), () =>
              request.intent.operation.run(request, scope.context),
            )
          : (found.value as OutcomeBody);
      scope.leave('returned');
      return body;
    } catch (error) {
      scope.leave('threw');
      throw error;
    }
  });
}
