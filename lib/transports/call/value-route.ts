import type { ExecutionContext } from '@nestjs/common';
import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import type { Scope } from '../../core/record/record-key.js';
import { rejectionError } from '../../core/util/errors.js';
import { throwOptionError } from '../../core/util/option-checks.js';
import { askOptionLater } from '../common/ask-option.js';
import { payloadFingerprint, type PayloadFingerprint } from '../common/payload-fingerprint.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';
import { anonymousScope, principalOf, toScope } from '../common/scope.js';
import type { Call } from './call.js';

/** The settings of a protected handler, the same for all its calls. */
export interface ValueRoute {
  readonly operation: string;
  /** `Class.method`, for messages. */
  readonly handler: string;
  readonly options: ResolvedRequestOptions;
  readonly protocol: ResolvedProtocolOptions;
  readonly codec: OutcomeCodec;
  readonly fingerprint: PayloadFingerprint;
  readonly maxStoredBytes: Call['maxStoredBytes'];
}

export interface ValueRouteOptions {
  readonly request: ResolvedRequestOptions;
  readonly protocol: ResolvedProtocolOptions;
  readonly codec: OutcomeCodec;
}

export function valueRoute(
  handler: string,
  { request, protocol, codec }: ValueRouteOptions,
): ValueRoute {
  const operation = request.operation ?? handler;
  return {
    operation,
    handler,
    options: request,
    protocol,
    codec,
    fingerprint: payloadFingerprint(operation, request.fingerprint),
    maxStoredBytes: request.storeBody ? request.maxStoredBytes : 'none',
  };
}

/** The checked key of a call, if any. @throws {@link OperationRejectedError} for a missing or invalid key. */
export function checkedKey(
  chosen: unknown,
  { operation, options: { maxKeyLength, required } }: ValueRoute,
  remedy: string,
): string | undefined {
  if (chosen === undefined) {
    if (required) throw rejectionError('idempotency_key_missing', { operation, remedy });
    return undefined;
  }
  if (typeof chosen !== 'string' || chosen === '' || chosen.length > maxKeyLength) {
    const form = `a string of 1–${String(maxKeyLength)} characters`;
    throw rejectionError('idempotency_key_invalid', { operation, form });
  }
  return chosen;
}

/**
 * The scope of a key, or `undefined` where the handler runs unprotected for unknown callers.
 * @param userOf - returns the authenticated user; called where there is no option `scope`.
 * @throws {@link OperationRejectedError} for an unknown caller, where these are rejected.
 */
export async function callerScope(
  context: ExecutionContext,
  { operation, options }: ValueRoute,
  userOf: () => unknown,
  remedy: string,
): Promise<Scope | undefined> {
  const { scope, anonymous } = options;
  const result =
    scope === undefined
      ? principalOf(userOf())
      : await askOptionLater('scope', operation, () => scope(context));
  return (
    toScope(result, operation) ??
    anonymousScope(anonymous, () => {
      throw rejectionError('idempotency_caller_unknown', { operation, remedy });
    })
  );
}

/** How values of calls, messages and GraphQL fields are stored. */
export interface ValueOptions {
  /**
   * Encodes and decodes values. Every caller, also the first, gets a value as it was stored.
   * @defaultValue `jsonCodec()`; for messages and gateways, whose wire is JSON, `jsonCodec({ dates: 'text' })`
   */
  readonly codec?: OutcomeCodec;
}

/** @throws {@link IdempotencyOptionsError} for a value that is not a codec. */
export function checkCodec(codec: OutcomeCodec): void {
  const { name, encode, decode } = codec as Partial<OutcomeCodec>;
  const isCodec =
    typeof name === 'string' &&
    name !== '' &&
    typeof encode === 'function' &&
    typeof decode === 'function';
  if (!isCodec) throwOptionError('codec', 'an OutcomeCodec, such as jsonCodec()', typeof codec);
}
