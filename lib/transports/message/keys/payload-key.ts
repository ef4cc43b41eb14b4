import {
  canonicalJson,
  checkDepth,
  checkHoles,
  containersIn,
  ContentNotComparableError,
} from '../../../core/record/canonical-json.js';
import { selectMembers } from '../../../core/record/content-selection.js';
import { digest } from '../../../core/record/fingerprint.js';
import { checkNames, isObject, throwOptionError } from '../../../core/options/option-checks.js';
import { keyAlong, pathNames, payloadOf } from '../../common/key-path.js';
import { patternOf } from '../source/rpc-context.js';
import type { MessageKey } from './message-id.js';

/** The members of a payload that make its key, by dotted paths (`order.id`), which go through arrays. */
export interface PayloadSelection {
  /** Only these members, with all that is nested in them. @defaultValue all */
  readonly include?: readonly string[];
  /** Without these: what a redelivery or a retry changes (a timestamp, a trace id). @defaultValue none */
  readonly exclude?: readonly string[];
}

const NAMES: ReadonlySet<string> = new Set(['include', 'exclude']);

/**
 * Derives the key from the payload: a digest of its canonical JSON, or of the selected members. Two payloads have the
 * same key exactly if these members are equal. The order of members does not count. The order of an array's items does,
 * and so does whether a member is absent or `null`, a string or a number, an array or its item. Bytes or text count as
 * a whole, and have no members to include. An equal payload under another pattern (event, topic, subject) has another
 * key. There is no key where the selected members are absent, or hold only `null`, empty strings, empty arrays and
 * empty objects.
 * The returned function throws {@link ContentNotComparableError} where a selected member holds what JSON cannot express
 * without loss (a date, bytes, a `Map`), or the payload is nested more than 1,000 levels deep.
 * @throws {@link IdempotencyOptionsError} for an unknown option or an invalid path.
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
    return hasContent(content) ? digest([patternOf(context), canonicalJson(content)]) : undefined;
  };
}

function checkedPaths(option: string, paths: unknown): readonly string[] | undefined {
  if (paths === undefined) return undefined;
  if (!Array.isArray(paths)) throwOptionError(option, 'an array of dotted paths', paths);
  // A copy: the caller may change the array later.
  return paths.map((path: unknown) => pathNames(option, path).join('.'));
}

/**
 * Uses a field of the payload as the key, by a dotted path (`order.id`): of a message, of a GraphQL field's arguments,
 * or of a request's body. It must be a string, an integer or a bigint, and not inside an array. Absent or `null` means no
 * key. The option `key: { from: { payload: 'order.id' } }` does the same without a function.
 * @throws {@link IdempotencyOptionsError} when it is not a dotted path.
 */
export function payloadField(path: string): MessageKey {
  const names = pathNames('payloadField(path)', path);
  return keyAlong(names, `field "${path}" of a payload`);
}

/**
 * Rejects what JSON would write as another value, so that two payloads would be equal: a date as its string, a `Map` as
 * an empty object, `undefined` in an array as `null`. A member that is `undefined` counts as absent.
 * @param value - nested no deeper than the stack allows: see {@link checkDepth}.
 * @throws {@link ContentNotComparableError}
 */
function checkIsJson(value: unknown): void {
  checkIsPlain(value);
  if (Array.isArray(value)) {
    // Not forEach, which skips holes.
    for (const item of value as unknown[]) checkIsJson(item);
  } else if (isObject(value)) {
    for (const member of Object.values(value)) if (member !== undefined) checkIsJson(member);
  }
}

/** {@link checkIsJson} for the value itself, without its members. */
function checkIsPlain(value: unknown): void {
  if (Array.isArray(value) || isPlainObject(value) || isLiteral(value)) return;
  throw new ContentNotComparableError(
    'The payload contains a value that JSON cannot express without loss: a date, bytes, a Map, a class instance, a stream, a BigInt, a non-finite number, or undefined in an array. Exclude it in payloadKey(), or set the option "key" to a function.',
  );
}

/** Whether the value holds something distinctive: a non-empty string, a number or a boolean. */
function hasContent(value: unknown): boolean {
  if (isObject(value)) return Object.values(value).some(hasContent);
  return value !== undefined && value !== null && value !== '';
}

/** By its prototype's prototype: objects of another realm are plain, too. */
function isPlainObject(value: unknown): boolean {
  if (!isObject(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function isLiteral(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return value === null || typeof value === 'string' || typeof value === 'boolean';
}
