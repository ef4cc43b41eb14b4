import { Logger } from '@nestjs/common';
import {
  InvalidScope,
  readPart,
  readScope,
  SCOPE_RULE,
  type Scope,
} from '../../core/record/scope.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { classOf } from '../../core/options/option-checks.js';
import type { ResolvedRequestOptions } from './request-options.js';

const EXAMPLE =
  "such as (context) => context.switchToHttp().getRequest().user.id.toHexString() for MongoDB's ObjectId";

/** How to correct an invalid scope, by the option that gives it. */
const REMEDIES = {
  user: `Convert it in the option "caller.scope", ${EXAMPLE}.`,
  'caller.scope': `Convert it in this function, ${EXAMPLE}, or return undefined for an unknown caller: the option "caller.anonymous" then decides.`,
  scope: 'Convert it in this function, such as ({ tenant }) => String(tenant.number).',
};

/**
 * The default scope: the user that a guard has authenticated; `undefined` if the caller is unknown, because there is no
 * user, or one without an id.
 * @throws {@link IdempotencyOptionsError} for a user or an id of another type. Counted as unknown, it would share its
 * scope with others.
 */
export function principalOf(user: unknown, operation: string): Scope | undefined {
  // What Passport's guards set where there is no user.
  if (user === undefined || user === null || user === false) return undefined;
  const id = idOf(user, operation);
  if (id === undefined || id === null) {
    warnOnce(operation);
    return undefined;
  }
  // A list is none: it would be the same caller as its only item.
  const scope = readPart(id);
  if (!(scope instanceof InvalidScope)) return scope;
  throw new IdempotencyOptionsError(
    `The id of the user (its "id", or else its "sub") that called ${operation} is ${scope.problem}. ${SCOPE_RULE} ${REMEDIES.user}`,
  );
}

function idOf(user: unknown, operation: string): unknown {
  const type = classOf(user);
  const isUser = typeof user === 'object' && type !== 'an array' && type !== 'a promise';
  if (!isUser) {
    throw new IdempotencyOptionsError(
      `The user that called ${operation} is ${type}, not an object with an "id" or a "sub". Set such an object in the guard, or name the caller by the option "caller.scope".`,
    );
  }
  try {
    const { id, sub } = user as { readonly id?: unknown; readonly sub?: unknown };
    return id ?? sub;
  } catch (cause) {
    throw new IdempotencyOptionsError(
      `The "id" or "sub" of the user that called ${operation} cannot be read. Name the caller by the option "caller.scope".`,
      { cause },
    );
  }
}

const logger = new Logger('Idempotency');
const warned = new Set<string>();

/** A guard has probably authenticated the caller, whom the application would want to be known. */
function warnOnce(operation: string): void {
  if (warned.has(operation)) return;
  warned.add(operation);
  logger.warn(
    `The user that called ${operation} has neither an "id" nor a "sub", so the caller counts as unknown, and the option "caller.anonymous" decides. If this user is a caller, name it by the option "caller.scope".`,
  );
}

/**
 * The scope for the result of a scope function; `undefined` if it is `undefined` or `null`: the caller is unknown
 * (contract C22–C31a).
 * @param mayBeEmpty - whether an empty list is a scope: that of all callers.
 * @throws {@link IdempotencyOptionsError} for any other result that is no scope, also if only a part is missing: two
 * callers could share the rest.
 */
export function toScope(
  result: unknown,
  operation: string,
  option: 'caller.scope' | 'scope' = 'caller.scope',
  mayBeEmpty = false,
): Scope | undefined {
  if (result === undefined || result === null) return undefined;
  const scope = readScope(result, mayBeEmpty);
  if (!(scope instanceof InvalidScope)) return scope;
  throw new IdempotencyOptionsError(
    `The function given as the option "${option}" of ${operation} returned ${scope.problem}. ${SCOPE_RULE} ${REMEDIES[option]}`,
  );
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
