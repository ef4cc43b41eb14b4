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
import type { ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { requestFingerprint, type RequestFingerprint } from './content/request-fingerprint.js';
import type { ResolvedHttpOptions } from './http-options.js';
import type { ProblemContext } from './problem.js';
import type { ReplayHeaders } from './replay-headers.js';
import { RESPONSE_NOT_KEPT } from './response/http-response.js';

/** A handler of a controller, as Nest's contexts give it; only looked at, never called. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-function-type -- Nest's own type of it
export type Handler = Function;

/** Everything about a protected route that does not change from request to request. */
export interface HttpRoute {
  /** The operation's stable name. */
  readonly operation: string;
  readonly options: ResolvedHttpOptions;
  readonly protocol: ResolvedProtocolOptions;
  /** The handler takes the response into its own hands: `@Res()` or `@Next()` without passthrough. */
  readonly isNative: boolean;
  /** What Nest makes of the value that the handler returns, however the response is sent. */
  readonly rendition: 'page' | 'redirect' | 'body' | 'nothing';
  /** Names of the route's `@Header` fields, in lower case: Nest sets them before any interceptor runs. */
  readonly routeHeaders: ReadonlySet<string>;
  readonly replayHeaders: ReplayHeaders;
  /** Name of the key's field in lower case; `undefined` where a function finds the key. */
  readonly keyField: string | undefined;
  readonly fingerprint: RequestFingerprint;
  readonly problems: ProblemContext;
}

/** Nest's `RouteParamtypes` of `@Res()` and `@Next()`, which are part of the metadata's keys. */
const RESPONSE_PARAMETERS = /^[12]:/;

/**
 * Reads what Nest knows about a route.
 *
 * @param isMulterBound - one of Nest's interceptors that call multer stands outside of the layer.
 * @throws {@link IdempotencyOptionsError} for a route that cannot be protected.
 */
export function httpRoute(
  controller: Type,
  handler: Handler,
  options: ResolvedHttpOptions,
  protocol: ResolvedProtocolOptions,
  isMulterBound: boolean,
): HttpRoute {
  const operation = options.operation ?? `${controller.name}.${handler.name}`;
  if (Reflect.getMetadata(SSE_METADATA, handler) !== undefined) {
    throw new IdempotencyOptionsError(
      `${operation} is an @Sse() route: an endless stream has no outcome that could be replayed. Remove @Idempotent() from it; where it stands on the class and the stream is not read by GET, put it on the methods that are to run once.`,
    );
  }
  const isNative = takesResponse(controller, handler.name);
  const isSafe = isSafeRoute(handler);
  if (isNative && typeof protocol.onTakeover === 'function' && !isSafe) {
    throw new IdempotencyOptionsError(
      `${operation} answers by @Res() itself, so that nothing could send what the function given as the option "onTakeover" finds. Let it return its answer, or set "onTakeover" to 'run' or 'reject' there.`,
    );
  }
  if (isNative && protocol.transactional && !isSafe) {
    throw new IdempotencyOptionsError(
      `${operation} answers by @Res() itself, so that nobody knows when it has written the last of its transaction. Let it return its answer, or set "transactional" to false there.`,
    );
  }
  const { key, replayHeaders, problemTypeBase } = options;
  return Object.freeze({
    operation,
    options,
    protocol,
    isNative,
    rendition: renditionOf(handler, isNative),
    routeHeaders: routeHeaders(handler),
    replayHeaders:
      replayHeaders === undefined
        ? 'all'
        : new Set(replayHeaders.map((name) => name.toLowerCase())),
    keyField: typeof key === 'string' ? key.toLowerCase() : undefined,
    fingerprint: requestFingerprint(
      operation,
      options.fingerprint,
      isMulterBound,
      Reflect.getMetadata(HOST_METADATA, controller) !== undefined,
    ),
    problems: { typeBase: problemTypeBase, retryAfterMs: protocol.retryAfterMs },
  });
}

/** Whether requests of its method are never protected. */
export function isSafeRoute(handler: Handler): boolean {
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

/** As Nest decides it: `@Render()` before `@Redirect()` before a handler with the response in its own hands. */
function renditionOf(handler: Handler, isNative: boolean): HttpRoute['rendition'] {
  if (Reflect.getMetadata(RENDER_METADATA, handler)) return 'page';
  const redirect = Reflect.getMetadata(REDIRECT_METADATA, handler) as { url?: unknown } | undefined;
  if (typeof redirect?.url === 'string') return 'redirect';
  return isNative ? 'nothing' : 'body';
}

function routeHeaders(handler: Handler): ReadonlySet<string> {
  const headers = Reflect.getMetadata(HEADERS_METADATA, handler) as { name: string }[] | undefined;
  return new Set((headers ?? []).map(({ name }) => name.toLowerCase()));
}

const UNPROTECTED = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** Safe methods have no effect that could happen twice (RFC 9110 §9.2.1): the key is ignored (contract C21). */
export function isUnprotectedMethod(method: string): boolean {
  return UNPROTECTED.has(method);
}

/**
 * How records of a route are recovered without a request; `undefined` where it has no function for it.
 *
 * Only the fact is kept. The bytes of an answer are what serializers, interceptors and filters make of a value
 * within a request, and there is none: bytes that were made without them could show what those hide.
 */
export function recoverableRoute({ protocol }: HttpRoute): RecoverableOperation | undefined {
  const { onTakeover } = protocol;
  if (typeof onTakeover !== 'function') return undefined;
  return { options: { ...protocol, onTakeover }, outcomeOf: () => RESPONSE_NOT_KEPT };
}
