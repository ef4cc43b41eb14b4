import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record/record-key.js';
import { askOptionLater } from '../common/ask-option.js';
import { anonymousScope, principalOf, toScope } from '../common/scope.js';
import { callerUnknown } from './call-refusals.js';
import type { ValueRoute } from './value-route.js';

/**
 * Whose key it is, or `undefined` where the handler runs unprotected for whom nobody knows.
 *
 * @param userOf - gives the user whom the guards have found out; asked where there is no option `scope`.
 * @param remedy - what to do where such callers are rejected, a sentence.
 * @throws {@link OperationRejectedError} where they are.
 */
export async function callerScope(
  context: ExecutionContext,
  { operation, options }: ValueRoute,
  userOf: () => unknown,
  remedy: string,
): Promise<Scope | undefined> {
  const { scope, anonymous } = options;
  const answer =
    scope === undefined
      ? principalOf(userOf())
      : await askOptionLater('scope', operation, () => scope(context));
  return (
    toScope(answer, operation) ??
    anonymousScope(anonymous, () => {
      throw callerUnknown(operation, remedy);
    })
  );
}
