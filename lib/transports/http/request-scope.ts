import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record/record-key.js';
import { whenReady } from '../../core/util/maybe-async.js';
import { askOptionLater } from '../request/ask-option.js';
import { principalOf, toScope } from '../request/scope.js';
import type { PlatformRequest } from './content/request-content.js';
import type { HttpRoute } from './http-route.js';

/** Whose key it is, or `undefined` when nobody can say. */
export function requestScope(
  context: ExecutionContext,
  request: PlatformRequest,
  { operation, options: { scope } }: HttpRoute,
): Scope | undefined | Promise<Scope | undefined> {
  return scope === undefined
    ? toScope(principalOf(request.user), operation)
    : whenReady(
        askOptionLater('scope', operation, () => scope(context)),
        (answer) => toScope(answer, operation),
      );
}
