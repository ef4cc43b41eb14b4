import { types } from 'node:util';
import { configure } from 'safe-stable-stringify';
import { IdempotencyError } from '../util/errors.js';
import { forget } from '../util/maybe-async.js';

/** Containers inside containers that a compared value may have (contract C35). */
export const MAX_CONTENT_DEPTH = 1000;

/**
 * The content has no canonical form: a number that is not finite, a `Map` or another object that JSON would write as an
 * empty one, or nesting beyond {@link MAX_CONTENT_DEPTH}.
 */
export class ContentNotComparableError extends IdempotencyError {
  override readonly name = 'ContentNotComparableError';
  readonly code = 'idempotency_content_invalid';
}

/**
 * Levels that the library writes. It looks for each container among all that it is in, and so does `JSON.stringify`: a
 * million of them below a thousand others took a quarter of a second. What is nested deeper is rare, and written here.
 */
const SHALLOW_DEPTH = 32;

// `strict` throws where JSON would write null for a number that is not finite: null is another content.
const stringify = configure({ strict: true, maximumDepth: SHALLOW_DEPTH });

/**
 * A JSON value as text that is equal exactly for equal values: members in a fixed order, no spacing, one
 * spelling per number (binary64) and per character (RFC 8785 in spirit). `undefined` gives the empty text.
 *
 * @throws {@link ContentNotComparableError}
 */
export function canonicalJson(value: unknown): string {
  const text = attempt(value) ?? '';
  // JSON says the same of every Map, promise or instance with private fields.
  if (text.includes('{}')) checkSaysSomething(value);
  return text;
}

/** @throws {@link ContentNotComparableError} when `value` is nested beyond {@link MAX_CONTENT_DEPTH}. */
export function checkDepth(value: unknown): void {
  if (isTooDeep(value)) throw tooDeep();
}

/**
 * Whether JSON would write an object as if it were empty, whatever it holds: a `Map`, a promise, an `Error`, an instance
 * of a class without members of its own, such as one whose fields are private.
 *
 * @param value - after its `toJSON`.
 */
export function isOpaque(value: object): boolean {
  if (Array.isArray(value) || types.isTypedArray(value)) return false;
  if (types.isMap(value) || types.isSet(value)) return true;
  return isEmpty(value) && !hasPlainPrototype(value);
}

/** An object, and what JSON would write of it: what its `toJSON` answers, or else itself. */
export interface Container {
  readonly value: object;
  readonly json: unknown;
}

/**
 * All containers that JSON would write of a value: there may be circles. What is nested too deep is not among
 * them. Promises are forgotten: nobody will wait for them.
 *
 * @throws {@link ContentNotComparableError} where a `toJSON` throws.
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

/** Empty places in all arrays of a content together: rows that were deleted from a page leave a few. */
const MAX_HOLES = 10_000;

/**
 * Multer makes an array as long as the index in a field's name says (`rows[4000000000]`), and whoever
 * writes it down writes every hole. What lies beyond an array's greatest index is not written at all.
 *
 * @throws {@link ContentNotComparableError}
 */
export function checkHoles(containers: Iterable<Container>): void {
  let holes = 0;
  for (const { json } of containers) {
    if (!Array.isArray(json)) continue;
    const indexes = Object.keys(json);
    holes += Math.max(0, json.length - indexes.length);
    if (holes > MAX_HOLES || Number(indexes.at(-1)) >= json.length) {
      throw new ContentNotComparableError(
        'The content has arrays with too many holes. If a form\'s fields make them, set "limits.fieldArrayIndexLimit" of multer.',
      );
    }
  }
}

function checkSaysSomething(value: unknown): void {
  for (const { json } of containersIn(value)) {
    if (isContainer(json) && isOpaque(json)) throw inexpressible();
  }
}

function attempt(value: unknown): string | undefined {
  try {
    const text = stringify(value);
    // What lies deeper is replaced by one of these texts, which a shallow value may hold as well.
    const mayBeDeep = text?.includes('"[Object]"') === true || text?.includes('"[Array]"') === true;
    return mayBeDeep ? new DeepJson().of('', value) : text;
  } catch (error) {
    // A value's own toJSON knows better what it is.
    if (error instanceof ContentNotComparableError) throw error;
    throw inexpressible(error);
  }
}

/** Writes what the library writes, at the same cost for each container however deep it lies. */
class DeepJson {
  private readonly ancestors = new Set<object>();

  of(name: string, value: unknown): string | undefined {
    if (!isContainer(value)) return stringify(value);
    const json = jsonOf(name, value);
    return isContainer(json) ? this.container(json) : stringify(json);
  }

  private container(value: object): string {
    // Its members come by their indexes, which are no texts, and there are no containers in it.
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
    // Not map, which passes over holes.
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
    'The content holds something that JSON cannot express: a number that is not finite, a BigInt, a function, a symbol, a circle, a Map, or an object of another kind without members of its own.',
    cause === undefined ? undefined : { cause },
  );
}

function isTooDeep(value: unknown): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === MAX_CONTENT_DEPTH) return level.some((container) => !isEmpty(container));
    const members = level.flatMap((container): unknown[] => Object.values(container));
    // Each container once: of a circle there would be more at every level.
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
    // A value's own toJSON knows better what it is.
    throw error instanceof ContentNotComparableError ? error : inexpressible(error);
  }
}

function hasToJson(value: object): value is { toJSON(name: string): unknown } {
  return 'toJSON' in value && typeof value.toJSON === 'function';
}

/** By its prototype's prototype: what comes out of another realm is plain, too. */
function hasPlainPrototype(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
