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

/** What a scope function may return. `undefined`, `null` and empty values mean that the caller is unknown. */
export type ScopeResult = ScopePart | readonly (ScopePart | null | undefined)[] | null | undefined;

/**
 * Which parts of a JSON or form body count, by dotted paths (`customer.id`). A path applies to each item of an array.
 * The files of a form are members under the names of their fields, each with `filename`, `mediaType` and `sha256`:
 * `photo` selects all of them, `photo.filename` only the name.
 */
export interface FingerprintSelection {
  /** Only these members of the body count; all, if omitted. */
  readonly include?: readonly string[];
  /** These members of the body do not count. */
  readonly exclude?: readonly string[];
  /** Request headers that also count (`If-Match`), case-insensitive. */
  readonly headers?: readonly string[];
}

/**
 * How a retry is distinguished from another request with the same key.
 * - `'canonical'`: compares method, path, parameters of the route's host, query (the order of different names does not
 *   count), media type and body: JSON and forms by value, files by name, media type and digest, other bodies by bytes.
 * - `'bytes'`: the same with the body's raw bytes; requires Nest's `rawBody: true`. A multipart body is compared by its
 *   parts, because its boundary changes.
 * - `false`: compares nothing. Every request with the key gets the outcome.
 * - a {@link FingerprintSelection}.
 * - a function that returns a JSON value, text or bytes. Only the result is compared, not path or host. An `undefined`
 *   member counts as absent, an `undefined` item as `null`. An object whose members are all `undefined` is a
 *   {@link ContentNotComparableError} (HTTP: 400): a client may have left them out. `undefined`, a promise, a `Map`, a
 *   `Set`, and an instance of a class without own members (its fields are private, or it has none) are an
 *   {@link IdempotencyOptionsError} (HTTP: 500): return plain data or `null`, or give the class a `toJSON`.
 */
export type FingerprintOption =
  | 'canonical'
  | 'bytes'
  | false
  | FingerprintSelection
  | ((content: RequestContent, context: ExecutionContext) => unknown);

/** How requests are protected, on every transport. */
export interface RequestOptions {
  /** Whether this request is protected; a function decides for each request. @defaultValue true */
  readonly enabled?: boolean | ((context: ExecutionContext) => boolean);
  /**
   * Whom the key belongs to: one part or several (tenant, user). Each scope has its own keys (contract C22–C31a).
   * @defaultValue `request.user.id ?? request.user.sub`, a string or safe integer
   */
  readonly scope?: (context: ExecutionContext) => ScopeResult | Promise<ScopeResult>;
  /**
   * Handles a caller without a scope. `'reject'`: 400. `'ignore'`: the operation runs unprotected. `'shared'`: all such
   * callers share one scope, so any of them that knows a key gets its response.
   * @defaultValue 'reject'
   */
  readonly anonymous?: 'reject' | 'ignore' | 'shared';
  /**
   * The stable name of its records. Set it before you rename the class or method, or if a bundler shortens names.
   * @defaultValue `Class.method`
   */
  readonly operation?: string;
  /**
   * Scope of a key's uniqueness: one operation, or all operations of the principal; then the key of one operation is
   * rejected (422) for another (contract C41).
   * @defaultValue 'operation'
   */
  readonly keyScope?: 'operation' | 'principal';
  /** The key's header, or a function that returns the key, if there is one. @defaultValue 'Idempotency-Key' */
  readonly key?: string | ((context: ExecutionContext) => string | undefined);
  /** Whether a request without a key is rejected with 400, or runs unprotected (C18, C19). @defaultValue true */
  readonly required?: boolean;
  /** Maximum characters of a decoded key, 1 to 1 024. Longer keys are rejected, never truncated. @defaultValue 255 */
  readonly maxKeyLength?: number;
  /** @defaultValue 'canonical' */
  readonly fingerprint?: FingerprintOption;
  /**
   * Which outcomes are kept and replayed. After any other outcome, a retry runs the operation again.
   * @defaultValue 2xx, 3xx, and 4xx but 401, 403, 408, 412, 425 and 429
   */
  readonly keep?: OutcomePolicy;
  /** `false` stores only that the operation is done: a retry gets 409 "response not kept" (C87d). @defaultValue true */
  readonly storeBody?: boolean;
  /**
   * Maximum bytes of a stored body. A larger one is sent; only that the operation is done is stored, and a retry gets
   * 409 "response not kept" (contract C70a). 0 to 67 108 864.
   * @defaultValue 1_048_576
   */
  readonly maxStoredBytes?: number;
}

/** {@link RequestOptions} with all defaults. `scope` and `operation` have none. */
export type ResolvedRequestOptions = Required<Omit<RequestOptions, 'scope' | 'operation'>> &
  Pick<RequestOptions, 'scope' | 'operation'>;

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
/** A field name is a token (RFC 9110 §5.1). */
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** @throws {@link IdempotencyOptionsError} with option, range and value. */
export function checkRequestOptions(options: ResolvedRequestOptions): void {
  checkChoice('enabled', options.enabled, [true, false], 'orFunction');
  if (options.scope !== undefined) checkFunction('scope', options.scope);
  checkChoice('anonymous', options.anonymous, ['reject', 'ignore', 'shared']);
  if (options.operation !== undefined && !isText(options.operation)) {
    throwOptionError('operation', 'a non-empty string', options.operation);
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

export function checkFieldName(option: string, name: unknown): void {
  if (typeof name !== 'string' || !FIELD_NAME.test(name)) {
    throwOptionError(option, 'the name of a header field', name);
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** @throws {@link IdempotencyOptionsError} if the function given as the option throws or does not return a boolean. */
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
    `The function given as the option "enabled" of ${operation} must return true or false synchronously.`,
  );
}
