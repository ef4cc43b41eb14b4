import type { ExecutionContext } from '@nestjs/common';
import type { ResolvedOutcome, ResolvedProtocolOptions } from '../../core/operation/options.js';
import type { ScopePart } from '../../core/record/scope.js';
import {
  checkFunction,
  checkNames,
  isSettings,
  throwOptionError,
} from '../../core/options/option-checks.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
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
import {
  checkByContext,
  entryFor,
  isByContext,
  mergedByContext,
  type ByContext,
  type ContextName,
} from './by-context.js';
import type { KeySyntax } from './idempotency-key.js';
import { keyAlong, pathNames } from './key-path.js';
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

/** Finds a request's key; `undefined` or `null` means that there is none. */
export type KeyFunction = (context: ExecutionContext) => string | null | undefined;

/** A key in the content of a message or in the body of a request, by a dotted path: `'meta.eventId'`. */
export interface PayloadKeyPath {
  /** The path. */
  readonly payload: string;
}

/** A key in the arguments of a GraphQL field, by a dotted path: `'input.requestId'`. */
export interface ArgumentKeyPath {
  /** The path. */
  readonly arg: string;
}

/** Where the key of one request comes from: the name of a header, a path, or a function. */
export type KeySource = string | PayloadKeyPath | ArgumentKeyPath | KeyFunction;

/** Where keys come from, by the type of Nest's execution context. */
export interface KeySources {
  readonly http?: string | PayloadKeyPath | KeyFunction;
  readonly graphql?: KeySource;
  readonly rpc?: string | PayloadKeyPath | KeyFunction;
  /** WebSocket messages have no headers. */
  readonly ws?: PayloadKeyPath | KeyFunction;
}

/** Where a request's key comes from. */
export interface KeyOptions {
  /**
   * The header that has the key, a path to it (`{ payload }` in a message or a body, `{ arg }` in GraphQL's arguments) or a
   * function; or one of these for each type of context, `{ http, graphql, rpc, ws }`. For a context without an entry, what
   * an outer level says counts, or else the default of its transport.
   * A path is dotted, `'meta.eventId'`, and finds only members that values have themselves. A string, an integer or a
   * bigint is a key, and an integer is the same key as its digits. Nothing or `null` is a missing key, as a missing header
   * is; anything else is an invalid one. It is compared with the rest of the content, too. What a function returns has to be a string, or `undefined` or `null` for none;
   * another type is an {@link IdempotencyOptionsError} (HTTP: 500).
   * @defaultValue 'Idempotency-Key'
   */
  readonly from?: KeySource | KeySources;
  /** Whether a request without a key is rejected with 400, or runs unprotected (C18, C19). @defaultValue true */
  readonly required?: boolean;
  /**
   * `'lenient'`: `"k"` or bare `k`, which are the same key. `'strict'`: only a structured-field String (RFC 9651).
   * `'uuid'`: a UUID in either form. A function receives the decoded key and returns whether it is valid. Ignored if
   * `from` is a function or a path.
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

/** Finds whom a key belongs to. */
export type ScopeFunction = (context: ExecutionContext) => ScopeResult | Promise<ScopeResult>;

/** Whom keys belong to. */
export interface CallerOptions {
  /**
   * A function, or one for each type of context, `{ http, graphql, rpc, ws }`. It returns one part or several (tenant,
   * user), strings, safe integers or bigints, each of which has its own keys (contract C22–C31a); `undefined` or `null` for
   * an unknown caller. Convert ids of other types, such as `user._id.toHexString()`. For a context without an entry, what an
   * outer level says counts, or else the default; that of messages is no tenant, so that keys belong to `message.consumer`.
   * @defaultValue `request.user.id ?? request.user.sub`
   */
  readonly scope?: ScopeFunction | ByContext<ScopeFunction>;
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
  readonly key?: string | KeyFunction | KeyOptions;
  /** Whom keys belong to. */
  readonly caller?: CallerOptions;
  /**
   * How a retry is distinguished from another request with the same key: see {@link FingerprintOption}.
   * @defaultValue 'canonical'
   */
  readonly fingerprint?: FingerprintOption;
}

/** {@link RequestOptions} with all defaults, for one type of context. `caller.scope` and `operation` have none. */
export interface ResolvedRequestOptions extends ResolvedProtocolOptions {
  readonly enabled: NonNullable<RequestOptions['enabled']>;
  readonly operation?: string;
  readonly key: Required<Omit<KeyOptions, 'from'>> & {
    readonly from: string | KeyFunction;
    /** Where a path finds the key, for messages of errors. */
    readonly place: string | undefined;
  };
  readonly caller: Required<Omit<CallerOptions, 'scope'>> & { readonly scope?: ScopeFunction };
  readonly fingerprint: FingerprintOption;
  readonly outcome: ResolvedOutcome;
}

/** A field name is a token (RFC 9110 §5.1). */
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

export const OF_HANDLERS: readonly Place[] = ['module', 'class', 'method'];

const FINGERPRINTS: readonly unknown[] = ['canonical', 'bytes', false];

/** How each name in a list is checked. */
const FINGERPRINT_PARTS = { include: checkPath, exclude: checkPath, headers: checkFieldName };

/** The names of a path's object. */
const PATHS: ReadonlySet<string> = new Set(['payload', 'arg']);

const ONE_EACH = 'an object with one for each type of context (http, graphql, rpc, ws)';

const KEY_REMEDIES: ReadonlyMap<string, string> = new Map([
  ['header', "Give the header's name itself: from: 'Idempotency-Key'."],
]);

const KEY: Group<KeyOptions, ResolvedRequestOptions['key']> = {
  fields: {
    from: {
      default: 'Idempotency-Key',
      check: (option, value) => {
        if (isByContext(value, PATHS)) {
          checkByContext(option, value as object, checkKeySource, KEY_REMEDIES);
        } else checkKeySource(option, value);
      },
      merge: (outer, value) => mergedByContext<unknown>(outer, value, PATHS),
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
    scope: {
      defaultText: '`request.user.id ?? request.user.sub`',
      check: (option, value) => {
        if (isByContext(value)) checkByContext(option, value as object, checkFunction);
        else if (!isFunction(value)) throwOptionError(option, `a function, or ${ONE_EACH}`, value);
      },
      merge: mergedByContext,
    },
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

function checkKeySource(option: string, value: unknown, context?: ContextName): void {
  if (isFunction(value)) return;
  if (isSettings(value)) {
    checkNames(`"${option}"`, value, PATHS);
    const [[name, path] = [], ...others] = Object.entries(value);
    if (name !== undefined && others.length === 0) {
      pathNames(`${option}.${name}`, path);
      if (name === 'arg' && context !== undefined) checkArgument(option, context);
      return;
    }
  } else if (typeof value === 'string' && context !== 'ws') {
    checkFieldName(option, value);
    return;
  }
  const choices = ["one path ({ payload: 'meta.eventId' })", 'a function'];
  if (context !== 'ws') choices.unshift('the name of a header field');
  if (context === undefined) choices.push(ONE_EACH);
  const last = choices.pop() ?? '';
  throwOptionError(option, `${choices.join(', ')}, or ${last}`, value);
}

/** Only GraphQL's arguments have names: elsewhere, every request would have no key. */
function checkArgument(option: string, context: ContextName): void {
  if (context === 'graphql') return;
  throw new IdempotencyOptionsError(
    `The option "${option}" is a path of an argument, which only GraphQL has. Set it to { payload: '…' } for a message or a body; for GraphQL alone, set "key.from" to { graphql: { arg: '…' } }.`,
  );
}

/** The options as they are for one type of context. @throws {@link IdempotencyOptionsError} for a path that it does not have. */
export function forContext<Options extends ResolvedRequestOptions>(
  context: ContextName,
  options: Options,
): Options {
  const { key, caller } = options as unknown as {
    readonly key: Required<KeyOptions>;
    readonly caller: CallerOptions;
  };
  const { scope, ...others } = caller;
  const functionOf = entryFor<ScopeFunction | undefined>(context, scope);
  return Object.freeze({
    ...options,
    key: Object.freeze({ ...key, ...keySourceFor(context, key.from) }),
    caller: Object.freeze({ ...others, ...(functionOf && { scope: functionOf }) }),
  });
}

function keySourceFor(
  context: ContextName,
  given: KeySource | KeySources,
): Pick<ResolvedRequestOptions['key'], 'from' | 'place'> {
  const from = entryFor<unknown>(context, given, PATHS) as KeySource;
  if (typeof from !== 'object') return { from, place: undefined };
  if ('arg' in from) {
    checkArgument('key.from', context);
    return alongPath(from.arg, 'argument', 'field');
  }
  return alongPath(from.payload, 'member', 'payload');
}

function alongPath(path: string, part: string, whole: string) {
  const names = pathNames('key.from', path);
  return {
    from: keyAlong(names, `${part} "${path}" of a ${whole} (option "key.from")`),
    place: `the ${whole}'s ${part} "${path}"`,
  };
}

function checkPath(option: string, path: unknown): void {
  if (!isText(path)) throwOptionError(option, 'an array of dotted paths', path);
}

export function checkFieldName(option: string, name: unknown): void {
  if (typeof name !== 'string' || !FIELD_NAME.test(name)) {
    throwOptionError(option, 'the name of a header field', name);
  }
}
