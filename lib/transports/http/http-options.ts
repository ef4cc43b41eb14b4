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
   * `'lenient'`: `"k"` and bare `k`, the same key. `'strict'`: a structured-field String only (RFC 9651).
   * `'uuid'`: a UUID in either form. Or a predicate of the decoded key. Not used where `key` is a function.
   * @defaultValue 'lenient'
   */
  readonly keySyntax?: KeySyntax;
  /**
   * The header that marks a replay, with the value `true`.
   * @defaultValue 'Idempotent-Replayed'
   */
  readonly replayHeader?: string;
  /**
   * Names of the handler's headers that a replay repeats. Fields of one exchange (`Date`,
   * `Set-Cookie`, `X-Request-Id` …, contract C64–C67) are never repeated.
   * @defaultValue all that the handler added
   */
  readonly replayHeaders?: readonly string[];
  /**
   * Base of the problem documents' `type`, without a slash at its end: point it to the API's own pages.
   * @defaultValue the package's own
   */
  readonly problemTypeBase?: string;
}

/** {@link HttpOptions} with every default filled in; `scope`, `operation` and `replayHeaders` have none. */
export type ResolvedHttpOptions = Required<
  Omit<HttpOptions, 'scope' | 'operation' | 'replayHeaders'>
> &
  Pick<HttpOptions, 'scope' | 'operation' | 'replayHeaders'>;

/** The defaults of {@link HttpOptions}. */
export const HTTP_DEFAULTS: ResolvedHttpOptions = Object.freeze({
  ...REQUEST_DEFAULTS,
  keySyntax: 'lenient',
  replayHeader: 'Idempotent-Replayed',
  problemTypeBase: PROBLEM_TYPE_BASE,
});

const ABSOLUTE_URI = /^[a-z][a-z0-9+.-]*:\S+[^/\s]$/i;

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function checkHttpOptions(options: ResolvedHttpOptions): void {
  checkRequestOptions(options);
  checkChoice('keySyntax', options.keySyntax, ['lenient', 'strict', 'uuid'], 'orFunction');
  checkFieldName('replayHeader', options.replayHeader);
  checkListOf('replayHeaders', options.replayHeaders, checkFieldName);
  if (!ABSOLUTE_URI.test(options.problemTypeBase)) {
    throwOptionError(
      'problemTypeBase',
      'an absolute URI without a slash at its end',
      options.problemTypeBase,
    );
  }
}

/** Says of a run without a record that it was one (`onStoreUnavailable: 'execute'`). */
export const STATUS_HEADER = 'Idempotency-Status';

/**
 * The header fields that the layer adds to answers, by their default names. A browser shows a page on
 * another origin none of them unless CORS exposes them; a `replayHeader` of your own belongs to them.
 *
 * @example `app.enableCors({ exposedHeaders: [...EXPOSED_HEADERS] })`
 */
export const EXPOSED_HEADERS: readonly string[] = Object.freeze([
  HTTP_DEFAULTS.replayHeader,
  STATUS_HEADER,
  'Retry-After',
]);
