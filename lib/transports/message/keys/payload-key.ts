import type { ExecutionContext } from '@nestjs/common';
import {
  canonicalJson,
  checkDepth,
  checkHoles,
  containersIn,
  ContentNotComparableError,
} from '../../../core/record/canonical-json.js';
import { selectMembers } from '../../../core/record/content-selection.js';
import { digest } from '../../../core/record/fingerprint.js';
import { checkNames, throwOptionError } from '../../../core/util/option-checks.js';
import { patternOf } from '../source/rpc-context.js';
import { keyText, unreadableKey, type MessageKey } from './message-id.js';

/** Which members of a payload make its key, by dotted paths (`order.id`); arrays are passed through. */
export interface PayloadSelection {
  /**
   * Only these members, and what is below them.
   * @defaultValue all
   */
  readonly include?: readonly string[];
  /**
   * Not these: what a redelivery or a retry changes (a time of sending, a trace id).
   * @defaultValue none
   */
  readonly exclude?: readonly string[];
}

const NAMES: ReadonlySet<string> = new Set(['include', 'exclude']);

/**
 * The key is derived from the payload: a digest of its canonical JSON, or of the members that are chosen. Two payloads
 * have the same key exactly where these members are equal: the order of members does not count; the order of items in an
 * array does, and so does whether a member is absent or `null`, a text or a number, an array or what is in it. A payload
 * of bytes or text counts as a whole, and has no members to include. Under another pattern (another event, topic or
 * subject) an equal payload is another message.
 *
 * There is no key where nothing is left that could tell one payload from another: the chosen members are not there, or
 * there is nothing in them but `null`, empty texts, empty arrays and empty objects.
 *
 * The function that is returned throws {@link ContentNotComparableError} where a chosen member holds something that JSON
 * cannot express without loss (a date, bytes, a `Map`), or the payload is nested more than 1,000 levels deep.
 *
 * @throws {@link IdempotencyOptionsError} for a name that is no option, and for paths that are none.
 */
export function payloadKey(selection: PayloadSelection = {}): MessageKey {
  checkNames('payloadKey()', selection, NAMES);
  const include = checkedPaths('payloadKey.include', selection.include);
  const exclude = checkedPaths('payloadKey.exclude', selection.exclude) ?? [];
  if (include?.length === 0) {
    throwOptionError('payloadKey.include', 'an array of at least one dotted path', include);
  }
  return (context) => {
    const payload = payloadOf(context);
    if (payload === undefined) return undefined;
    if (payload instanceof Uint8Array) {
      return include !== undefined || payload.length === 0
        ? undefined
        : digest([patternOf(context), payload]);
    }
    checkIsPlain(payload);
    checkDepth(payload);
    checkHoles(containersIn(payload));
    const content = selectMembers(payload, include, exclude);
    if (content === undefined) return undefined;
    checkIsJson(content);
    return saysSomething(content)
      ? digest([patternOf(context), canonicalJson(content)])
      : undefined;
  };
}

function checkedPaths(option: string, paths: unknown): readonly string[] | undefined {
  if (paths === undefined) return undefined;
  if (!Array.isArray(paths)) throwOptionError(option, 'an array of dotted paths', paths);
  // A copy: what becomes of the caller's array later does not count.
  return paths.map((path: unknown) => pathNames(option, path).join('.'));
}

/**
 * The names along a dotted path.
 *
 * @throws {@link IdempotencyOptionsError} when it is no text, or a name in it is empty.
 */
function pathNames(option: string, path: unknown): string[] {
  const names = typeof path === 'string' ? path.split('.') : [];
  if (names.length === 0 || names.includes('')) {
    throwOptionError(option, 'a dotted path such as "order.id"', path);
  }
  return names;
}

/** What came in, whichever way: a message, a WebSocket's message, the arguments of a GraphQL field, the body of a request. */
function payloadOf(context: ExecutionContext): unknown {
  switch (context.getType<string>()) {
    case 'rpc':
      return context.switchToRpc().getData();
    case 'ws':
      return context.switchToWs().getData();
    case 'graphql':
      return context.getArgByIndex(1);
    case 'http':
      return context.switchToHttp().getRequest<{ readonly body?: unknown }>().body;
    default:
      return undefined;
  }
}

/**
 * The key is a field of the payload: a message's, a WebSocket's message's, the arguments' of a GraphQL field, a
 * request's body. It has to be text or an integer; a path does not lead through arrays. Where the field is not there, or
 * `null`, there is no key.
 *
 * @param path - dotted: `order.id`.
 * @throws {@link IdempotencyOptionsError} when it is not a dotted path.
 */
export function payloadField(path: string): MessageKey {
  const names = pathNames('payloadField(path)', path);
  const where = `field "${path}" of a payload`;
  return (context) => {
    let value = payloadOf(context);
    for (const name of names) {
      if (Array.isArray(value)) throw unreadableKey(where);
      if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
      value = value[name];
    }
    return keyText(value, where);
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/**
 * Refuses what JSON would write down as something else, so that two values would be taken for one: a date for its text,
 * a `Map` for an empty object, `undefined` in an array for `null`. A member that is `undefined` counts as absent.
 *
 * @param value - nested no deeper than the stack allows: see {@link checkDepth}.
 * @throws {@link ContentNotComparableError}
 */
function checkIsJson(value: unknown): void {
  checkIsPlain(value);
  if (Array.isArray(value)) {
    // Not forEach, which passes over holes.
    for (const item of value as unknown[]) checkIsJson(item);
  } else if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) if (member !== undefined) checkIsJson(member);
  }
}

/**
 * The same for the value itself, and nothing inside of it.
 *
 * @throws {@link ContentNotComparableError}
 */
function checkIsPlain(value: unknown): void {
  if (Array.isArray(value) || isPlainObject(value) || isLiteral(value)) return;
  throw new ContentNotComparableError(
    'The payload holds something that JSON cannot express without loss: a date, bytes, a Map, an instance of a class, a stream, a BigInt, a number that is not finite, undefined in an array. Let payloadKey() exclude it, or give a function as the option "key".',
  );
}

/**
 * Whether something in the value can tell it from another one: a text that is not empty, a number, a boolean.
 *
 * @param value - see {@link checkIsJson}.
 */
function saysSomething(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(saysSomething);
  return value !== undefined && value !== null && value !== '';
}

/** By its prototype's prototype: what comes out of another realm is plain, too. */
function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function isLiteral(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return value === null || typeof value === 'string' || typeof value === 'boolean';
}
