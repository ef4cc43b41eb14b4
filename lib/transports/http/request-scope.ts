import type { ExecutionContext } from '@nestjs/common';
import { isScopePart, type Scope } from '../../core/record-key.js';
import type { ResolvedHttpOptions, ScopeAnswer } from './http-options.js';
import type { PlatformRequest } from './content/request-content.js';

/**
 * Whose key it is, or `undefined` when nobody can say: then nobody's record may be touched (contract
 * C22–C31a). A part that is missing makes the whole scope unknown, for two callers could share the rest.
 */
export async function requestScope(
  context: ExecutionContext,
  request: PlatformRequest,
  scope: ResolvedHttpOptions['scope'],
): Promise<Scope | undefined> {
  const answer = scope === undefined ? principalOf(request.user) : await scope(context);
  return toScope(answer);
}

function principalOf(user: unknown): ScopeAnswer {
  if (typeof user !== 'object' || user === null) return undefined;
  const { id, sub } = user as { id?: ScopeAnswer; sub?: ScopeAnswer };
  return id ?? sub;
}

function toScope(answer: ScopeAnswer): Scope | undefined {
  const parts: readonly unknown[] = Array.isArray(answer) ? answer : [answer];
  return parts.length > 0 && parts.every(isScopePart) ? parts : undefined;
}
