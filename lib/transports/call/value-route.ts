import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record/scope.js';
import { rejectionError, type OperationRejectedError } from '../../core/errors/errors.js';
import { askOptionLater } from '../common/ask-option.js';
import { payloadFingerprint, type PayloadFingerprint } from '../common/payload-fingerprint.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';
import { anonymousScope, principalOf, toScope } from '../common/scope.js';

/** The settings of a protected handler, the same for all its calls. */
export interface ValueRoute {
  readonly operation: string;
  /** `Class.method`, for messages. */
  readonly handler: string;
  readonly options: ResolvedRequestOptions;
  readonly fingerprint: PayloadFingerprint;
}

export function valueRoute(handler: string, options: ResolvedRequestOptions): ValueRoute {
  const { operation = handler } = options;
  return {
    operation,
    handler,
    options,
    fingerprint: payloadFingerprint(operation, options.fingerprint),
  };
}

/** The checked key of a call, if any. @throws {@link OperationRejectedError} for a missing or invalid key. */
export function checkedKey(
  chosen: unknown,
  { operation, options }: ValueRoute,
  remedy: string,
): string | undefined {
  const { required, maxLength } = options.key;
  if (chosen === undefined) {
    if (required) throw missingKey(operation, options.key, remedy);
    return undefined;
  }
  if (typeof chosen !== 'string' || chosen === '' || chosen.length > maxLength) {
    const form = `a string of 1–${String(maxLength)} characters`;
    throw rejectionError('idempotency_key_invalid', { operation, form });
  }
  return chosen;
}

/** @param remedy - where no path says where the key has to be. */
export function missingKey(
  operation: string,
  { place }: ResolvedRequestOptions['key'],
  remedy: string,
): OperationRejectedError {
  const atPlace =
    place &&
    `Send one key per intended operation, and the same key with every retry of it, as ${place}.`;
  return rejectionError('idempotency_key_missing', { operation, remedy: atPlace ?? remedy });
}

/**
 * The scope of a key, or `undefined` where the handler runs unprotected for unknown callers.
 * @param userOf - returns the authenticated user; called where there is no option `caller.scope`.
 * @throws {@link OperationRejectedError} for an unknown caller, where these are rejected.
 */
export async function callerScope(
  context: ExecutionContext,
  { operation, options }: ValueRoute,
  userOf: () => unknown,
  remedy: string,
): Promise<Scope | undefined> {
  const { scope, anonymous } = options.caller;
  const known =
    scope === undefined
      ? principalOf(userOf(), operation)
      : toScope(await askOptionLater('caller.scope', operation, () => scope(context)), operation);
  return (
    known ??
    anonymousScope(anonymous, () => {
      throw rejectionError('idempotency_caller_unknown', { operation, remedy });
    })
  );
}
