import { isScopePart, type Scope } from '../../core/record/record-key.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { forget, isThenable } from '../../core/util/maybe-async.js';
import type { ResolvedRequestOptions, ScopeResult } from './request-options.js';

/** The default scope: the user that a guard has authenticated. */
export function principalOf(user: unknown): ScopeResult {
  if (typeof user !== 'object' || user === null) return undefined;
  const { id, sub } = user as { id?: ScopeResult; sub?: ScopeResult };
  return id ?? sub;
}

/**
 * The scope for the result of a scope function; `undefined` if the caller is unknown (contract C22–C31a), also if a
 * part is missing, because two callers could share the rest.
 * @throws {@link IdempotencyOptionsError} if a part is a promise.
 */
export function toScope(
  result: ScopeResult,
  operation: string,
  option = 'caller.scope',
): Scope | undefined {
  const parts: readonly unknown[] = Array.isArray(result) ? result : [result];
  if (parts.some(isThenable)) {
    for (const part of parts) forget(part);
    throw new IdempotencyOptionsError(
      `The function given as the option "${option}" of ${operation} returned a promise as one of its parts. Await each part first.`,
    );
  }
  return parts.length > 0 && parts.every(isScopePart) ? parts : undefined;
}

/** The scope of an unknown caller; `undefined` if the operation runs unprotected. @param reject - throws. */
export function anonymousScope(
  anonymous: ResolvedRequestOptions['caller']['anonymous'],
  reject: () => never,
): Scope | undefined {
  switch (anonymous) {
    case 'reject':
      return reject();
    case 'ignore':
      return undefined;
    case 'shared':
      return [];
  }
}
