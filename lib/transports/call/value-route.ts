import type { ExecutionContext } from '@nestjs/common';
import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import type { Scope } from '../../core/record/record-key.js';
import { throwOptionError } from '../../core/util/option-checks.js';
import { askOptionLater } from '../common/ask-option.js';
import { payloadFingerprint, type PayloadFingerprint } from '../common/payload-fingerprint.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';
import { anonymousScope, principalOf, toScope } from '../common/scope.js';
import type { Call } from './call.js';
import { callerUnknown, keyInvalid, keyMissing } from './rejection-errors.js';

/** Everything about a protected handler of values that does not change from one to the next. */
export interface ValueRoute {
  /** The operation's stable name. */
  readonly operation: string;
  /** `Class.method`, for messages. */
  readonly handler: string;
  readonly options: ResolvedRequestOptions;
  readonly protocol: ResolvedProtocolOptions;
  readonly codec: OutcomeCodec;
  readonly fingerprint: PayloadFingerprint;
  /** A larger value is kept as "value not kept"; `'none'`: every value is. */
  readonly maxStoredBytes: Call['maxStoredBytes'];
}

/** What a handler's options say about it. */
export interface ValueRouteOptions {
  readonly request: ResolvedRequestOptions;
  readonly protocol: ResolvedProtocolOptions;
  readonly codec: OutcomeCodec;
}

/** @param handler - `Class.method`. */
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

/**
 * The key that was chosen for a call, or `undefined` where there is none and none is needed.
 *
 * @param remedy - what to do where one is needed, a sentence.
 * @throws {@link OperationRejectedError} where one is missing, or cannot be used.
 */
export function checkedKey(
  chosen: unknown,
  { operation, options: { maxKeyLength, required } }: ValueRoute,
  remedy: string,
): string | undefined {
  if (chosen === undefined) {
    if (required) throw keyMissing(operation, remedy);
    return undefined;
  }
  if (typeof chosen !== 'string' || chosen === '' || chosen.length > maxKeyLength) {
    throw keyInvalid(operation, maxKeyLength);
  }
  return chosen;
}

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
  const result =
    scope === undefined
      ? principalOf(userOf())
      : await askOptionLater('scope', operation, () => scope(context));
  return (
    toScope(result, operation) ??
    anonymousScope(anonymous, () => {
      throw callerUnknown(operation, remedy);
    })
  );
}

/** How the values of calls, messages and GraphQL fields are kept. */
export interface ValueOptions {
  /**
   * Writes values down and reads them again. Every caller gets a value as it was stored, the first one, too.
   * @defaultValue `jsonCodec()`; for messages and gateways, whose wire is JSON, `jsonCodec({ dates: 'text' })`
   */
  readonly codec?: OutcomeCodec;
}

/** @throws {@link IdempotencyOptionsError} for what is no codec. */
export function checkCodec(codec: OutcomeCodec): void {
  const { name, encode, decode } = codec as Partial<OutcomeCodec>;
  const isCodec =
    typeof name === 'string' &&
    name !== '' &&
    typeof encode === 'function' &&
    typeof decode === 'function';
  if (!isCodec) throwOptionError('codec', 'an OutcomeCodec, such as jsonCodec()', typeof codec);
}
