import type { LimitsOptions } from '../../core/operation/options.js';
import { throwOptionError } from '../../core/options/option-checks.js';
import { checkList, flag, of, type Group } from '../../core/options/option-schema.js';
import {
  checkFieldName,
  OF_HANDLERS,
  type ResolvedRequestOptions,
} from '../common/request-options.js';
import { PROBLEM_TYPE_BASE } from './problem.js';
import { isReplayable } from './replay-headers.js';

/** What responses of HTTP contain. */
export interface HttpOptions {
  /** The header that marks a replay, with the value `true`. @defaultValue 'Idempotent-Replayed' */
  readonly replayHeader?: string;
  /**
   * Names of the handler's headers to replay. Those of a single exchange and credentials (`Date`, `Set-Cookie`,
   * `Authorization`, `X-Request-Id`, names that end in `Token` …, contract C64–C67) are neither stored nor replayed, and cannot be named here.
   * @defaultValue all headers that the handler added
   */
  readonly replayHeaders?: readonly string[];
  /**
   * Names of further headers of the handler that are neither stored nor replayed, such as an application's own token or
   * trace. They come before `replayHeaders`.
   * @defaultValue `[]`
   */
  readonly neverReplayHeaders?: readonly string[];
  /**
   * Base URI of the problem documents' `type`, without a trailing slash. Point it to the API's own pages.
   * @defaultValue this package's documentation
   */
  readonly problemTypeBase?: string;
  /**
   * Skips Nest's streams of interceptors on a route whose only or innermost interceptor is this library's: alone, that
   * saves a request an eighth to a fifth of its CPU time. Guards, pipes, filters and responses stay the same. It replaces a method of
   * Nest's class `InterceptorsConsumer`, once per process, if a trial at the start shows that Nest calls interceptors as
   * expected. Otherwise, while another library has replaced the same method, and on routes with interceptors inside of
   * this one or with `transaction`, requests run through the streams; a start that does not switch it on logs why.
   * `false` for the module leaves Nest's class as it is.
   * @defaultValue true
   */
  readonly fastPath?: boolean;
}

/** The options of a route with all defaults. `http.replayHeaders` has none. */
export interface ResolvedHttpOptions extends ResolvedRequestOptions {
  readonly http: Required<Omit<HttpOptions, 'replayHeaders'>> & Pick<HttpOptions, 'replayHeaders'>;
  /** The process', which decide what problems the route's documentation lists. */
  readonly limits?: LimitsOptions;
  readonly secrets?: object;
}

const ABSOLUTE_URI = /^[A-Za-z][A-Za-z0-9+.-]*:\S+[^/\s]$/;

const REPLAY_HEADER = 'Idempotent-Replayed';

export const HTTP: Group<HttpOptions, ResolvedHttpOptions['http']> = {
  fields: {
    replayHeader: {
      default: REPLAY_HEADER,
      check: checkFieldName,
    },
    replayHeaders: {
      defaultText: 'all headers that the handler added',
      check: (option, names) => {
        checkList(option, names, checkReplayable);
      },
      read: (names) => Object.freeze([...names]),
    },
    neverReplayHeaders: {
      default: Object.freeze([]),
      defaultText: '`[]`',
      check: (option, names) => {
        checkList(option, names, checkFieldName);
      },
      read: (names) => Object.freeze([...names]),
    },
    problemTypeBase: of(
      'an absolute URI without a trailing slash',
      (value) => typeof value === 'string' && ABSOLUTE_URI.test(value),
      {
        default: PROBLEM_TYPE_BASE,
        defaultText: "this package's documentation",
      },
    ),
    fastPath: flag(true),
  },
  places: OF_HANDLERS,
};

/** A name that would be ignored is refused. */
function checkReplayable(option: string, name: unknown): void {
  checkFieldName(option, name);
  if (isReplayable(String(name).toLowerCase())) return;
  throwOptionError(option, 'the name of a header field that may be replayed', name);
}

/** Marks the response of an execution without a record (`storeErrors.whenUnavailable: 'execute'`). */
export const STATUS_HEADER = 'Idempotency-Status';

/**
 * The header fields that the library adds to responses, by their default names. Pages of another origin can read them
 * only if CORS exposes them. If you set `http.replayHeader`, expose that name too.
 * @example `app.enableCors({ exposedHeaders: [...EXPOSED_HEADERS] })`
 */
export const EXPOSED_HEADERS: readonly string[] = Object.freeze([
  REPLAY_HEADER,
  STATUS_HEADER,
  'Retry-After',
]);
