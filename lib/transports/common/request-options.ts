import type { ExecutionContext } from '@nestjs/common';
import type { ResolvedOutcome, ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { ScopePart } from '../../core/record/scope.js';
import { checkNames, isSettings, throwOptionError } from '../../core/options/option-checks.js';
import {
  checkList,
  choice,
  flag,
  integer,
  isFunction,
  isText,
  of,
  type Group,
  type Place,
  type Schema,
} from '../../core/options/option-schema.js';
import type { KeySyntax } from './idempotency-key.js';
import type { RequestContent } from './request-content.js';

/**
 * What a scope function may return: one part or several. `undefined` and `null` mean that the caller is unknown; anything
 * else is an {@link IdempotencyOptionsError} (HTTP: 500), also a list in which a part is missing.
 */
export type ScopeResult = ScopePart | readonly ScopePart[] | null | undefined;

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

/** Where a request's key comes from. */
export interface KeyOptions {
  /**
   * The key's header, or a function that returns the key, or `undefined` or `null` if there is none. Another type is an
   * {@link IdempotencyOptionsError} (HTTP: 500).
   * @defaultValue 'Idempotency-Key'
   */
  readonly from?: string | ((context: ExecutionContext) => string | null | undefined);
  /** Whether a request without a key is rejected with 400, or runs unprotected (C18, C19). @defaultValue true */
  readonly required?: boolean;
  /**
   * `'lenient'`: `"k"` or bare `k`, which are the same key. `'strict'`: only a structured-field String (RFC 9651).
   * `'uuid'`: a UUID in either form. A function receives the decoded key and returns whether it is valid. Ignored if
   * `from` is a function.
   * @defaultValue 'lenient'
   */
  readonly syntax?: KeySyntax;
  /**
   * Maximum characters of a decoded key. Longer keys are rejected, never truncated.
   * @defaultValue 255, from 1 to 1_024
   */
  readonly maxLength?: number;
  /**
   * Scope of a key's uniqueness: one operation, or all operations of the principal; then the key of one operation is
   * rejected (422) for another (contract C41).
   * @defaultValue 'operation'
   */
  readonly uniqueFor?: 'operation' | 'principal';
}

/** Whom keys belong to. */
export interface CallerOptions {
  /**
   * One part or several (tenant, user): strings, safe integers or bigints. `undefined` or `null` for an unknown caller.
   * Each scope has its own keys (contract C22–C31a). Convert ids of other types, such as `user._id.toHexString()`.
   * @defaultValue `request.user.id ?? request.user.sub`
   */
  readonly scope?: (context: ExecutionContext) => ScopeResult | Promise<ScopeResult>;
  /**
   * Handles a caller without a scope. `'reject'`: 400. `'ignore'`: the operation runs unprotected. `'shared'`: all such
   * callers share one scope, so any of them that knows a key gets its response.
   * @defaultValue 'reject'
   */
  readonly anonymous?: 'reject' | 'ignore' | 'shared';
}

/** How requests are protected, on every transport. */
export interface RequestOptions {
  /** Whether this request is protected; a function decides for each request. @defaultValue true */
  readonly enabled?: boolean | ((context: ExecutionContext) => boolean);
  /**
   * The stable name of its records. Set it before you rename the class or method, or if a bundler shortens names.
   * @defaultValue `Class.method`
   */
  readonly operation?: string;
  /** Where a request's key comes from. A header's name or a function sets `from`. */
  readonly key?: string | ((context: ExecutionContext) => string | null | undefined) | KeyOptions;
  /** Whom keys belong to. */
  readonly caller?: CallerOptions;
  /**
   * How a retry is distinguished from another request with the same key: see {@link FingerprintOption}.
   * @defaultValue 'canonical'
   */
  readonly fingerprint?: FingerprintOption;
}

/** {@link RequestOptions} with all defaults. `caller.scope` and `operation` have none. */
export interface ResolvedRequestOptions extends ResolvedProtocolOptions {
  readonly enabled: NonNullable<RequestOptions['enabled']>;
  readonly operation?: string;
  readonly key: Required<KeyOptions>;
  readonly caller: Required<Omit<CallerOptions, 'scope'>> & Pick<CallerOptions, 'scope'>;
  readonly fingerprint: FingerprintOption;
  readonly outcome: ResolvedOutcome;
}

/** A field name is a token (RFC 9110 §5.1). */
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

export const OF_HANDLERS: readonly Place[] = ['module', 'class', 'method'];

const FINGERPRINTS: readonly unknown[] = ['canonical', 'bytes', false];

/** How each name in a list is checked. */
const FINGERPRINT_PARTS = { include: checkPath, exclude: checkPath, headers: checkFieldName };

const KEY: Group<KeyOptions, ResolvedRequestOptions['key']> = {
  fields: {
    from: {
      default: 'Idempotency-Key',
      check: (option, value) => {
        if (!isFunction(value)) checkFieldName(option, value);
      },
    },
    required: flag(true),
    syntax: choice(['lenient', 'strict', 'uuid'], { default: 'lenient', orFunction: true }),
    maxLength: integer({ default: 255, min: 1, max: 1_024 }),
    uniqueFor: choice(['operation', 'principal'], { default: 'operation' }),
  },
  shorthand: 'from',
  places: OF_HANDLERS,
};

const CALLER: Group<CallerOptions, ResolvedRequestOptions['caller']> = {
  fields: {
    scope: of('a function', isFunction, {
      defaultText: '`request.user.id ?? request.user.sub`',
    }),
    anonymous: choice(['reject', 'ignore', 'shared'], { default: 'reject' }),
  },
  places: OF_HANDLERS,
};

export const REQUEST: Schema<RequestOptions, ResolvedRequestOptions> = {
  enabled: choice([true, false], { default: true, orFunction: true, places: OF_HANDLERS }),
  operation: of('a non-empty string', isText, {
    defaultText: '`Class.method`',
    places: ['class', 'method', 'call'],
  }),
  key: KEY,
  caller: CALLER,
  fingerprint: {
    default: 'canonical',
    places: OF_HANDLERS,
    check: checkFingerprint,
    read: (option) => {
      if (typeof option !== 'object') return option;
      const parts = Object.entries<readonly string[] | undefined>({ ...option });
      const copies = parts.map(([part, names]) => [part, names && Object.freeze([...names])]);
      return Object.freeze(Object.fromEntries(copies) as FingerprintSelection);
    },
  },
};

function checkFingerprint(name: string, option: unknown): void {
  if (!isSettings(option)) {
    const isValid = FINGERPRINTS.includes(option) || isFunction(option);
    if (!isValid) throwOptionError(name, '"canonical", "bytes", false, a function', option);
    return;
  }
  checkNames(`"${name}"`, option, new Set(Object.keys(FINGERPRINT_PARTS)));
  for (const [part, names] of Object.entries(option)) {
    if (names !== undefined) {
      checkList(`${name}.${part}`, names, FINGERPRINT_PARTS[part as keyof FingerprintSelection]);
    }
  }
}

function checkPath(option: string, path: unknown): void {
  if (!isText(path)) throwOptionError(option, 'an array of dotted paths', path);
}

export function checkFieldName(option: string, name: unknown): void {
  if (typeof name !== 'string' || !FIELD_NAME.test(name)) {
    throwOptionError(option, 'the name of a header field', name);
  }
}
