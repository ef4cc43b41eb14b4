import { isScopePart, type Scope } from '../../core/record/record-key.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { forget, isThenable } from '../../core/util/maybe-async.js';
import type { ResolvedRequestOptions, ScopeResult } from './request-options.js';

/** The default scope: whom the guards have found out. */
export function principalOf(user: unknown): ScopeResult {
  if (typeof user !== 'object' || user === null) return undefined;
  const { id, sub } = user as { id?: ScopeResult; sub?: ScopeResult };
  return id ?? sub;
}

/**
 * The scope that an answer names, or `undefined` when nobody can say whose key it is: then nobody's record may be
 * touched (contract C22–C31a). A part that is missing makes the whole scope unknown, for two callers could share
 * the rest.
 *
 * @throws {@link IdempotencyOptionsError} for a promise among the parts.
 */
export function toScope(result: ScopeResult, operation: string): Scope | undefined {
  const parts: readonly unknown[] = Array.isArray(result) ? result : [result];
  if (parts.some(isThenable)) {
    for (const part of parts) forget(part);
    throw new IdempotencyOptionsError(
      `The function given as the option "scope" of ${operation} answered with a promise among the parts: await each part before.`,
    );
  }
  return parts.length > 0 && parts.every(isScopePart) ? parts : undefined;
}

/**
 * The scope of a caller whom nobody knows, by the option `anonymous`; `undefined` where the operation runs unprotected.
 *
 * @param reject - throws.
 */
export function anonymousScope(
  anonymous: ResolvedRequestOptions['anonymous'],
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
