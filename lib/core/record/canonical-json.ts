import { types } from 'node:util';
import { configure } from 'safe-stable-stringify';
import { IdempotencyError } from '../errors/errors.js';
import { forget } from '../util/maybe-async.js';

/** Maximum nesting of a compared value (contract C35). */
export const MAX_CONTENT_DEPTH = 1000;

/** A number is not finite, JSON writes an object (a `Map`) as `{}`, or the depth exceeds {@link MAX_CONTENT_DEPTH}. */
export class ContentNotComparableError extends IdempotencyError {
  override readonly name = 'ContentNotComparableError';
  readonly code = 'idempotency_content_invalid';
}

/** safe-stable-stringify compares containers with all ancestors: a million below a thousand took a quarter second. */
const SHALLOW_DEPTH = 32;

// `strict` throws for a number that is not finite. JSON would write null, which is a different content.
const stringify = configure({ strict: true, maximumDepth: SHALLOW_DEPTH });

/**
 * Serializes a JSON value. Texts are equal if and only if values are: sorted members, no whitespace, one form per
 * number (binary64) and character (after RFC 8785). Empty for `undefined`. Throws {@link ContentNotComparableError}.
 */
export function canonicalJson(value: unknown): string {
  const text = attempt(value) ?? '';
  // JSON writes {} for every Map, promise and instance with private fields.
  if (text.includes('{}')) checkHasContent(value);
  return text;
}

/** @throws {@link ContentNotComparableError} when `value` is nested beyond {@link MAX_CONTENT_DEPTH}. */
export function checkDepth(value: unknown): void {
  if (isTooDeep(value)) throw tooDeep();
}

/**
 * Whether JSON writes `value`, after its `toJSON`, as `{}` whatever it holds: a `Map`, a promise, only private fields.
 */
export function isOpaque(value: object): boolean {
  if (Array.isArray(value) || types.isTypedArray(value)) return false;
  if (types.isMap(value) || types.isSet(value)) return true;
  return isEmpty(value) && !hasPlainPrototype(value);
}

/** An object with what JSON writes for it: the result of its `toJSON`, otherwise the object. */
export interface Container {
  readonly value: object;
  readonly json: unknown;
}

/**
 * All containers that JSON would write of a value, up to {@link MAX_CONTENT_DEPTH}. Allows cycles. Handles rejections
 * of promises, without awaiting them. Throws {@link ContentNotComparableError} where a `toJSON` throws.
 */
export function containersIn(value: unknown): readonly Container[] {
  const containers: Container[] = [];
  const written = new Set<object>();
  const plain = new Set<object>();
  let level: object[] = [{ '': value }];
  for (let depth = 0; level.length > 0 && depth <= MAX_CONTENT_DEPTH; depth += 1) {
    const below: object[] = [];
    for (const container of level) {
      for (const [name, member] of Object.entries(container) as [string, unknown][]) {
        if (!isContainer(member) || plain.has(member)) continue;
        forget(member);
        const json = jsonOf(name, member);
        if (json === member) plain.add(member);
        else forget(json);
        containers.push({ value: member, json });
        if (!isContainer(json) || ArrayBuffer.isView(json) || written.has(json)) continue;
        written.add(json);
        below.push(json);
      }
    }
    level = below;
  }
  return containers;
}

/** Maximum holes in all arrays of a content: rows deleted from a page leave a few. */
const MAX_HOLES = 10_000;

/**
 * Multer makes an array as long as the index in a field's name (`rows[4000000000]`), and a serializer writes every
 * hole, but no member beyond the greatest index. Throws {@link ContentNotComparableError}.
 */
export function checkHoles(containers: Iterable<Container>): void {
  let holes = 0;
  for (const { json } of containers) {
    if (!Array.isArray(json)) continue;
    const indexes = Object.keys(json);
    holes += Math.max(0, json.length - indexes.length);
    if (holes > MAX_HOLES || Number(indexes.at(-1)) >= json.length) {
      throw new ContentNotComparableError(
        'The arrays of the content have too many holes. If they come from form fields, set "limits.fieldArrayIndexLimit" of multer.',
      );
    }
  }
}

function checkHasContent(value: unknown): void {
  for (const { json } of containersIn(value)) {
    if (isContainer(json) && isOpaque(json)) throw inexpressible();
  }
}

function attempt(value: unknown): string | undefined {
  try {
    const text = stringify(value);
    // Deeper values are replaced by one of these texts, which a shallow value may contain as well.
    const mayBeDeep = text?.includes('"[Object]"') === true || text?.includes('"[Array]"') === true;
    return mayBeDeep ? new DeepJson().of('', value) : text;
  } catch (error) {
    // Thrown by a toJSON, which knows the reason.
    if (error instanceof ContentNotComparableError) throw error;
    throw inexpressible(error);
  }
}

/** Writes the same text as safe-stable-stringify, at a constant cost for each container at any depth. */
class DeepJson {
  private readonly ancestors = new Set<object>();

  of(name: string, value: unknown): string | undefined {
    if (!isContainer(value)) return stringify(value);
    const json = jsonOf(name, value);
    return isContainer(json) ? this.container(json) : stringify(json);
  }

  private container(value: object): string {
    // Its indexes are sorted as numbers, not as strings, and it contains no containers.
    if (types.isTypedArray(value)) return stringify(value);
    const isList = Array.isArray(value);
    if (isList ? value.length === 0 : isEmpty(value)) return isList ? '[]' : '{}';
    if (this.ancestors.has(value)) throw inexpressible();
    if (this.ancestors.size === MAX_CONTENT_DEPTH) throw tooDeep();
    this.ancestors.add(value);
    const text = isList ? this.items(value) : this.members(value);
    this.ancestors.delete(value);
    return text;
  }

  private items(items: readonly unknown[]): string {
    // Not map(), which skips holes.
    return `[${Array.from(items, (item, at) => this.of(String(at), item) ?? 'null').join(',')}]`;
  }

  private members(members: object): string {
    const texts: string[] = [];
    for (const [name, member] of Object.entries(members).sort(byName)) {
      const text = this.of(name, member);
      if (text !== undefined) texts.push(`${JSON.stringify(name)}:${text}`);
    }
    return `{${texts.join(',')}}`;
  }
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

function tooDeep(): ContentNotComparableError {
  return new ContentNotComparableError(
    `The content is nested more than ${String(MAX_CONTENT_DEPTH)} levels deep.`,
  );
}

function inexpressible(cause?: unknown): ContentNotComparableError {
  return new ContentNotComparableError(
    'The content contains a value that JSON cannot express: a number that is not finite, a BigInt, a function, a symbol, a circular reference, a Map, or another object without own members.',
    cause === undefined ? undefined : { cause },
  );
}

function isTooDeep(value: unknown): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === MAX_CONTENT_DEPTH) return level.some((container) => !isEmpty(container));
    const members = level.flatMap((container): unknown[] => Object.values(container));
    // Each container once: a cycle would add more at every level.
    level = [...new Set(members.filter(isContainer))];
  }
  return false;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isEmpty(container: object): boolean {
  return Object.keys(container).length === 0;
}

function jsonOf(name: string, value: object): unknown {
  if (!hasToJson(value)) return value;
  try {
    return value.toJSON(name);
  } catch (error) {
    throw error instanceof ContentNotComparableError ? error : inexpressible(error);
  }
}

function hasToJson(value: object): value is { toJSON(name: string): unknown } {
  return 'toJSON' in value && typeof value.toJSON === 'function';
}

/** Checks the prototype's prototype, so that plain objects of other realms count as well. */
function hasPlainPrototype(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Bytes unchanged, others as canonical JSON. @throws {@link ContentNotComparableError} if JSON cannot express them. */
export function bytesOrJson(value: unknown): string | Uint8Array {
  return value instanceof Uint8Array ? value : canonicalJson(value);
}
