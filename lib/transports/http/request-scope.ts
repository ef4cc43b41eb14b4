import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record-key.js';
import { principalOf, toScope } from '../request/scope.js';
import type { PlatformRequest } from './content/request-content.js';
import type { ResolvedHttpOptions } from './http-options.js';

/** Whose key it is, or `undefined` when nobody can say. */
export async function requestScope(
  context: ExecutionContext,
  request: PlatformRequest,
  scope: ResolvedHttpOptions['scope'],
): Promise<Scope | undefined> {
  return toScope(scope === undefined ? principalOf(request.user) : await scope(context));
}
