import { checkChoice, throwOptionError } from '../../core/util/option-checks.js';
import type { KeySyntax } from '../common/idempotency-key.js';
import {
  checkFieldName,
  checkListOf,
  checkRequestOptions,
  REQUEST_DEFAULTS,
  type RequestOptions,
} from '../common/request-options.js';
import { PROBLEM_TYPE_BASE } from './problem.js';

/** How an HTTP route is protected. */
export interface HttpOptions extends RequestOptions {
  /**
   * `'lenient'`: `"k"` or bare `k`, which are the same key. `'strict'`: only a structured-field String (RFC 9651).
   * `'uuid'`: a UUID in either form. A function receives the decoded key and returns whether it is valid. Ignored if
   * `key` is a function.
   * @defaultValue 'lenient'
   */
  readonly keySyntax?: KeySyntax;
  /** The header that marks a replay, with the value `true`. @defaultValue 'Idempotent-Replayed' */
  readonly replayHeader?: string;
  /**
   * Names of the handler's headers to replay. Those of a single exchange (`Date`, `Set-Cookie`, `X-Request-Id` …,
   * contract C64–C67) are never replayed.
   * @defaultValue all headers that the handler added
   */
  readonly replayHeaders?: readonly string[];
  /**
   * Base URI of the problem documents' `type`, without a trailing slash. Point it to the API's own pages.
   * @defaultValue this package's documentation
   */
  readonly problemTypeBase?: string;
}

/** {@link HttpOptions} with all defaults. `scope`, `operation` and `replayHeaders` have none. */
export type ResolvedHttpOptions = Required<
  Omit<HttpOptions, 'scope' | 'operation' | 'replayHeaders'>
> &
  Pick<HttpOptions, 'scope' | 'operation' | 'replayHeaders'>;

export const HTTP_DEFAULTS: ResolvedHttpOptions = Object.freeze({
  ...REQUEST_DEFAULTS,
  keySyntax: 'lenient',
  replayHeader: 'Idempotent-Replayed',
  problemTypeBase: PROBLEM_TYPE_BASE,
});

const ABSOLUTE_URI = /^[a-z][a-z0-9+.-]*:\S+[^/\s]$/i;

/** @throws {@link IdempotencyOptionsError} with option, range and value. */
export function checkHttpOptions(options: ResolvedHttpOptions): void {
  checkRequestOptions(options);
  checkChoice('keySyntax', options.keySyntax, ['lenient', 'strict', 'uuid'], 'orFunction');
  checkFieldName('replayHeader', options.replayHeader);
  checkListOf('replayHeaders', options.replayHeaders, checkFieldName);
  if (!ABSOLUTE_URI.test(options.problemTypeBase)) {
    throwOptionError(
      'problemTypeBase',
      'an absolute URI without a trailing slash',
      options.problemTypeBase,
    );
  }
}

/** Marks the response of an execution without a record (`onStoreUnavailable: 'execute'`). */
export const STATUS_HEADER = 'Idempotency-Status';

/**
 * The header fields that the library adds to responses, by their default names. Pages of another origin can read them
 * only if CORS exposes them. If you set `replayHeader`, expose that name too.
 * @example `app.enableCors({ exposedHeaders: [...EXPOSED_HEADERS] })`
 */
export const EXPOSED_HEADERS: readonly string[] = Object.freeze([
  HTTP_DEFAULTS.replayHeader,
  STATUS_HEADER,
  'Retry-After',
]);
