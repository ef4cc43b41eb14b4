import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record-key.js';
import { whenReady } from '../../core/when-ready.js';
import { principalOf, toScope } from '../request/scope.js';
import type { PlatformRequest } from './content/request-content.js';
import type { ResolvedHttpOptions } from './http-options.js';

/** Whose key it is, or `undefined` when nobody can say. */
export function requestScope(
  context: ExecutionContext,
  request: PlatformRequest,
  scope: ResolvedHttpOptions['scope'],
): Scope | undefined | Promise<Scope | undefined> {
  return scope === undefined
    ? toScope(principalOf(request.user))
    : whenReady(scope(context), toScope);
}
