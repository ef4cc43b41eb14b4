import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { requestFingerprint, type RequestFingerprint } from './content/request-fingerprint.js';
import type { ResolvedHttpOptions } from './http-options.js';
import type { ProblemContext } from './problem.js';
import type { ReplayHeaders } from './replay-headers.js';
import { RESPONSE_NOT_KEPT } from './response/http-response.js';

/** What is known of a route by its declaration. */
export interface RouteFacts {
  /** `Controller.method` */
  readonly name: string;
  /** Its requests change nothing, such as those of `@Get()`. */
  readonly isSafe: boolean;
  /** `@Sse()`. */
  readonly isStream: boolean;
  /** The handler sends the response itself: `@Res()` or `@Next()` without passthrough. */
  readonly isNative: boolean;
  /** What Nest makes of the handler's return value. */
  readonly rendition: 'page' | 'redirect' | 'body' | 'nothing';
  /** The names of its `@Header()` fields. Nest sets them before any interceptor runs. */
  readonly headers: readonly string[];
  /** The controller serves certain hosts only. */
  readonly isHostBound: boolean;
  /** One of Nest's interceptors that call multer runs before this library's. */
  readonly parsesFormsOutside: boolean;
}

/** The properties of a protected route that are the same for all requests. */
export interface HttpRoute extends Pick<RouteFacts, 'isNative' | 'rendition'> {
  readonly operation: string;
  readonly options: ResolvedHttpOptions;
  /** Whether no interceptor is outside of this library's, so that only Nest sees what it emits. */
  readonly isOutermost: () => boolean;
  /** Names of the route's `@Header` fields in lower case. */
  readonly routeHeaders: ReadonlySet<string>;
  readonly replayHeaders: ReplayHeaders;
  /** In lower case, besides those that belong to a single exchange. */
  readonly neverReplayHeaders: ReadonlySet<string>;
  /** Name of the key's field in lower case; `undefined` if a function returns the key. */
  readonly keyField: string | undefined;
  readonly fingerprint: RequestFingerprint;
  readonly problems: ProblemContext;
}

/** @throws {@link IdempotencyOptionsError} for a route that cannot be protected. */
export function httpRoute(
  facts: RouteFacts,
  options: ResolvedHttpOptions,
  isOutermost: () => boolean,
): HttpRoute {
  const { isNative, isSafe, rendition } = facts;
  const operation = options.operation ?? facts.name;
  if (facts.isStream) {
    throw new IdempotencyOptionsError(
      `${operation} is an @Sse() route: a stream of events has no outcome to replay. Remove @Idempotent() from it. If the decorator is on the class, apply it to the methods that are to run once instead.`,
    );
  }
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
    rendition,
    isOutermost,
    routeHeaders: inLowerCase(facts.headers),
    replayHeaders: replayHeaders === undefined ? 'all' : inLowerCase(replayHeaders),
    neverReplayHeaders: inLowerCase(neverReplayHeaders),
    keyField: typeof from === 'string' ? from.toLowerCase() : undefined,
    fingerprint: requestFingerprint(
      operation,
      options.fingerprint,
      facts.parsesFormsOutside,
      facts.isHostBound,
    ),
    problems: { typeBase: problemTypeBase, retryAfterMs: options.duplicates.retryAfter },
  });
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
