import { RequestMethod, type Type } from '@nestjs/common';
import {
  HEADERS_METADATA,
  HOST_METADATA,
  METHOD_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
  RESPONSE_PASSTHROUGH_METADATA,
  ROUTE_ARGS_METADATA,
  SSE_METADATA,
} from '@nestjs/common/constants.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { requestFingerprint, type RequestFingerprint } from './content/request-fingerprint.js';
import type { ResolvedHttpOptions } from './http-options.js';
import { isUnprotectedMethod } from '../common/ask-option.js';
import type { ProblemContext } from './problem.js';
import type { ReplayHeaders } from './replay-headers.js';
import { RESPONSE_NOT_KEPT } from './response/http-response.js';

/** A controller's method. Its metadata is read, too. */
interface RouteMethod {
  readonly name: string;
}

/** The properties of a protected route that are the same for all requests. */
export interface HttpRoute {
  readonly operation: string;
  readonly options: ResolvedHttpOptions;
  /** The handler sends the response itself: `@Res()` or `@Next()` without passthrough. */
  readonly isNative: boolean;
  /** What Nest makes of the handler's return value. */
  readonly rendition: 'page' | 'redirect' | 'body' | 'nothing';
  /** Whether no interceptor is outside of this library's, so that only Nest sees what it emits. */
  readonly isOutermost: () => boolean;
  /** Names of the route's `@Header` fields in lower case. Nest sets them before any interceptor runs. */
  readonly routeHeaders: ReadonlySet<string>;
  readonly replayHeaders: ReplayHeaders;
  /** In lower case, besides those that belong to a single exchange. */
  readonly neverReplayHeaders: ReadonlySet<string>;
  /** Name of the key's field in lower case; `undefined` if a function returns the key. */
  readonly keyField: string | undefined;
  readonly fingerprint: RequestFingerprint;
  readonly problems: ProblemContext;
}

/** Nest's `RouteParamtypes` of `@Res()` and `@Next()`, the prefixes of the metadata's keys. */
const RESPONSE_PARAMETERS = /^[12]:/;

/**
 * @param isMulterBound - one of Nest's interceptors that call multer runs before this library's.
 * @throws {@link IdempotencyOptionsError} for a route that cannot be protected.
 */
export function httpRoute(
  controller: Type,
  handler: RouteMethod,
  options: ResolvedHttpOptions,
  isMulterBound: boolean,
  isOutermost: () => boolean,
): HttpRoute {
  const operation = options.operation ?? `${controller.name}.${handler.name}`;
  if (Reflect.getMetadata(SSE_METADATA, handler) !== undefined) {
    throw new IdempotencyOptionsError(
      `${operation} is an @Sse() route: a stream of events has no outcome to replay. Remove @Idempotent() from it. If the decorator is on the class, apply it to the methods that are to run once instead.`,
    );
  }
  const isNative = takesResponse(controller, handler.name);
  const isSafe = isSafeRoute(handler);
  if (isNative && typeof options.lease.onTakeover === 'function' && !isSafe) {
    throw new IdempotencyOptionsError(
      `${operation} uses @Res() to send its response, so the value that the option "lease.onTakeover" returns cannot be sent. Return the response from the handler, or set "lease.onTakeover" to 'run' or 'reject' on it.`,
    );
  }
  if (isNative && options.transaction !== false && !isSafe) {
    throw new IdempotencyOptionsError(
      `${operation} uses @Res() to send its response, so the end of its transaction is unknown. Return the response from the handler, or set "transaction" to false on it.`,
    );
  }
  const { from } = options.key;
  const { replayHeaders, neverReplayHeaders, problemTypeBase } = options.http;
  return Object.freeze({
    operation,
    options,
    isNative,
    rendition: renditionOf(handler, isNative),
    isOutermost,
    routeHeaders: routeHeaders(handler),
    replayHeaders: replayHeaders === undefined ? 'all' : inLowerCase(replayHeaders),
    neverReplayHeaders: inLowerCase(neverReplayHeaders),
    keyField: typeof from === 'string' ? from.toLowerCase() : undefined,
    fingerprint: requestFingerprint(
      operation,
      options.fingerprint,
      isMulterBound,
      Reflect.getMetadata(HOST_METADATA, controller) !== undefined,
    ),
    problems: { typeBase: problemTypeBase, retryAfterMs: options.duplicates.retryAfter },
  });
}

export function isSafeRoute(handler: RouteMethod): boolean {
  const method = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
  return method !== undefined && isUnprotectedMethod(RequestMethod[method]);
}

function takesResponse(controller: Type, method: string): boolean {
  const parameters = Reflect.getMetadata(ROUTE_ARGS_METADATA, controller, method) as
    object | undefined;
  const passthrough: unknown = Reflect.getMetadata(
    RESPONSE_PASSTHROUGH_METADATA,
    controller,
    method,
  );
  return (
    passthrough !== true &&
    Object.keys(parameters ?? {}).some((parameter) => RESPONSE_PARAMETERS.test(parameter))
  );
}

/** In Nest's order: `@Render()`, then `@Redirect()`, then a native handler. */
function renditionOf(handler: RouteMethod, isNative: boolean): HttpRoute['rendition'] {
  if (Reflect.getMetadata(RENDER_METADATA, handler)) return 'page';
  const redirect = Reflect.getMetadata(REDIRECT_METADATA, handler) as { url?: unknown } | undefined;
  if (typeof redirect?.url === 'string') return 'redirect';
  return isNative ? 'nothing' : 'body';
}

function routeHeaders(handler: RouteMethod): ReadonlySet<string> {
  const headers = Reflect.getMetadata(HEADERS_METADATA, handler) as { name: string }[] | undefined;
  return inLowerCase((headers ?? []).map(({ name }) => name));
}

function inLowerCase(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.map((name) => name.toLowerCase()));
}

/**
 * How a route's records are recovered without a request: only as done, because a response made without serializers and
 * filters could expose what they hide. `undefined` unless `lease.onTakeover` is a function.
 */
export function recoverableRoute({ options }: HttpRoute): RecoverableOperation | undefined {
  const { onTakeover } = options.lease;
  if (typeof onTakeover !== 'function') return undefined;
  return { options, recover: onTakeover, outcomeOf: () => RESPONSE_NOT_KEPT };
}
