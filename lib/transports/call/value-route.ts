import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { payloadFingerprint, type PayloadFingerprint } from '../common/payload-fingerprint.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';
import type { Call } from './call.js';

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
