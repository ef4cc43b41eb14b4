import type { ExecutionContext } from '@nestjs/common';
import { keepResponses, type OutcomePolicy } from '../../core/operation/outcome-policy.js';
import type { ScopePart } from '../../core/record/record-key.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { forget } from '../../core/util/maybe-async.js';
import {
  checkBoolean,
  checkChoice,
  checkFunction,
  checkInteger,
  throwOptionError,
} from '../../core/util/option-checks.js';
import { askOption } from './ask-option.js';
import type { RequestContent } from './request-content.js';

/** What a scope function may answer; `undefined`, `null` and empty answers mean that the caller is unknown. */
export type ScopeResult = ScopePart | readonly (ScopePart | null | undefined)[] | null | undefined;

/**
 * Which parts of a JSON or form body count, by dotted paths (`customer.id`); arrays are passed through.
 * The files of a form are members under the names of their fields, each with `filename`, `mediaType` and
 * `sha256`: `photo` is a file with all that it is, `photo.filename` its name alone.
 */
export interface FingerprintSelection {
  /** Only these members of the body; all where it is left out. */
  readonly include?: readonly string[];
  /** Not these. */
  readonly exclude?: readonly string[];
  /** Request headers that count as content too (`If-Match`); in any case. */
  readonly headers?: readonly string[];
}

/**
 * How a request is told from another one under the same key.
 *
 * - `'canonical'`: method, path, parameters of the route's host, query (order between names does not count), media type,
 *   and the body: JSON and forms by value, files by name, media type and digest, all else by bytes.
 * - `'bytes'`: the same with the body's raw bytes; wants Nest's `rawBody: true`. A multipart body is compared by its
 *   parts all the same, for a client draws a new boundary for each attempt.
 * - `false`: nothing is compared, whoever has the key gets the outcome.
 * - a selection.
 * - a function that returns any JSON value, text or bytes. Only what it returns is compared: neither path nor host. A member
 *   that is `undefined` counts as absent, an item that is as `null`. An object whose members are all `undefined` is a
 *   {@link ContentNotComparableError} (HTTP: 400), for a client may have left them out. `undefined` itself, a promise, a `Map`,
 *   a `Set`, and an instance of a class without members of its own (its fields are private, or it has none) are an
 *   {@link IdempotencyOptionsError} (HTTP: 500): return `null` or plain data, or give the class a `toJSON`.
 */
export type FingerprintOption =
  | 'canonical'
  | 'bytes'
  | false
  | FingerprintSelection
  | ((content: RequestContent, context: ExecutionContext) => unknown);

/** How requests are protected, whichever way they come in. */
export interface RequestOptions {
  /**
   * Whether this request is protected at all: sample, or switch off.
   * @defaultValue true
   */
  readonly enabled?: boolean | ((context: ExecutionContext) => boolean);
  /**
   * Whose key it is: one part or several (tenant, user). The same key of another scope is another key
   * (contract C22–C31a).
   * @defaultValue `request.user.id ?? request.user.sub`, a string or safe integer
   */
  readonly scope?: (context: ExecutionContext) => ScopeResult | Promise<ScopeResult>;
  /**
   * What a caller without a scope gets: `'reject'` 400, `'ignore'` the operation runs unprotected,
   * `'shared'` one scope for all such callers (whoever knows a key gets its answer).
   * @defaultValue 'reject'
   */
  readonly anonymous?: 'reject' | 'ignore' | 'shared';
  /**
   * The operation's stable name. Give one of your own before you rename class or method, or let a bundler shorten
   * their names: records are found by it.
   * @defaultValue `Class.method`
   */
  readonly operation?: string;
  /**
   * Over what a key is unique: the operation, or all operations of the principal, where a second
   * operation under the same key is a mismatch (contract C41).
   * @defaultValue 'operation'
   */
  readonly keyScope?: 'operation' | 'principal';
  /**
   * Where the key comes from: a header's name, or a function; `undefined` means that there is none.
   * @defaultValue 'Idempotency-Key'
   */
  readonly key?: string | ((context: ExecutionContext) => string | undefined);
  /**
   * Whether a request without a key is refused with 400, or runs unprotected (contract C18, C19).
   * @defaultValue true
   */
  readonly required?: boolean;
  /**
   * Characters that a decoded key may have; longer ones are refused, never cut. 1 to 1 024.
   * @defaultValue 255
   */
  readonly maxKeyLength?: number;
  /** @defaultValue 'canonical' */
  readonly fingerprint?: FingerprintOption;
  /**
   * Which outcomes are kept and replayed; the others are released and may run again at once.
   * @defaultValue 2xx, 3xx, and 4xx but 401, 403, 408, 412, 425 and 429
   */
  readonly keep?: OutcomePolicy;
  /**
   * `false` keeps only the fact that it was done; a repetition is answered 409 "response not kept"
   * (contract C87d).
   * @defaultValue true
   */
  readonly storeBody?: boolean;
  /**
   * Bytes of a body that are stored; a larger one is sent, and kept as "response not kept" (contract
   * C70a). 0 to 67 108 864.
   * @defaultValue 1_048_576
   */
  readonly maxStoredBytes?: number;
}

/** {@link RequestOptions} with every default filled in; `scope` and `operation` have none. */
export type ResolvedRequestOptions = Required<Omit<RequestOptions, 'scope' | 'operation'>> &
  Pick<RequestOptions, 'scope' | 'operation'>;

/** The defaults of {@link RequestOptions}. */
export const REQUEST_DEFAULTS: ResolvedRequestOptions = Object.freeze({
  enabled: true,
  anonymous: 'reject',
  keyScope: 'operation',
  key: 'Idempotency-Key',
  required: true,
  maxKeyLength: 255,
  fingerprint: 'canonical',
  keep: keepResponses,
  storeBody: true,
  maxStoredBytes: 1_048_576,
});
/** RFC 9110 §5.1: a field name is a token. */
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function checkRequestOptions(options: ResolvedRequestOptions): void {
  checkChoice('enabled', options.enabled, [true, false], 'orFunction');
  if (options.scope !== undefined) checkFunction('scope', options.scope);
  checkChoice('anonymous', options.anonymous, ['reject', 'ignore', 'shared']);
  if (options.operation !== undefined && !isText(options.operation)) {
    throwOptionError('operation', 'a text that is not empty', options.operation);
  }
  checkChoice('keyScope', options.keyScope, ['operation', 'principal']);
  if (typeof options.key !== 'function') checkFieldName('key', options.key);
  checkBoolean('required', options.required);
  checkInteger('maxKeyLength', options.maxKeyLength, 1, 1024);
  checkFingerprint(options.fingerprint);
  checkFunction('keep', options.keep);
  checkBoolean('storeBody', options.storeBody);
  checkInteger('maxStoredBytes', options.maxStoredBytes, 0, 67_108_864);
}

function checkFingerprint(option: FingerprintOption): void {
  if (typeof option !== 'object' || (option as object | null) === null) {
    checkChoice('fingerprint', option, ['canonical', 'bytes', false], 'orFunction');
    return;
  }
  const { include, exclude, headers, ...others } = option;
  const unknown = Object.keys(others)[0];
  if (unknown !== undefined) {
    throwOptionError('fingerprint', 'an object of include, exclude and headers', {
      [unknown]: true,
    });
  }
  checkListOf('fingerprint.include', include, checkPath);
  checkListOf('fingerprint.exclude', exclude, checkPath);
  checkListOf('fingerprint.headers', headers, checkFieldName);
}

/** A list that may be left out. */
export function checkListOf(
  option: string,
  names: readonly string[] | undefined,
  check: (option: string, name: unknown) => void,
): void {
  if (names === undefined) return;
  if (!Array.isArray(names)) throwOptionError(option, 'an array of names', names);
  for (const name of names) check(option, name);
}

function checkPath(option: string, path: unknown): void {
  if (!isText(path)) throwOptionError(option, 'an array of dotted paths', path);
}

/** The name of a header field. */
export function checkFieldName(option: string, name: unknown): void {
  if (typeof name !== 'string' || !FIELD_NAME.test(name)) {
    throwOptionError(option, 'the name of a header field', name);
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/**
 * Whether a request is to be protected at all.
 *
 * @throws {@link IdempotencyOptionsError} when the function given as the option gives no answer.
 */
export function isEnabled(
  context: ExecutionContext,
  operation: string,
  { enabled }: Pick<ResolvedRequestOptions, 'enabled'>,
): boolean {
  const result: unknown =
    typeof enabled === 'function'
      ? askOption('enabled', operation, () => enabled(context))
      : enabled;
  if (typeof result === 'boolean') return result;
  forget(result);
  throw new IdempotencyOptionsError(
    `The function given as the option "enabled" of ${operation} must answer true or false, at once.`,
  );
}
