import { millisecondsOf, type DurationText } from './duration.js';
import { IdempotencyOptionsError } from '../errors/errors.js';
import { forget, isThenable } from '../util/maybe-async.js';

export function checkInteger(option: string, value: unknown, min: number, max: number): void {
  if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max) {
    throwOptionError(option, `an integer from ${String(min)} to ${String(max)}`, value);
  }
}

/** What a duration from `min` to `max` is, for an error. */
export function durationsFrom(min: DurationText, max: DurationText): string {
  return `a duration from '${min}' to '${max}' (a whole number and ms, s, m, h or d), or as many whole milliseconds`;
}

/** @returns milliseconds, or `undefined` for anything else. */
export function durationWithin(
  value: unknown,
  min: DurationText,
  max: DurationText,
): number | undefined {
  const ms = millisecondsOf(value) ?? NaN;
  return ms >= Number(millisecondsOf(min)) && ms <= Number(millisecondsOf(max)) ? ms : undefined;
}

/**
 * A number in a string, as the environment gives it, is refused: it may mean seconds.
 * @returns milliseconds.
 */
export function checkDuration(
  option: string,
  value: unknown,
  min: DurationText,
  max: DurationText,
): number {
  return (
    durationWithin(value, min, max) ?? throwOptionError(option, durationsFrom(min, max), value)
  );
}

export function checkFunction(option: string, value: unknown): void {
  if (typeof value !== 'function') throwOptionError(option, 'a function', value);
}

/** A text such as 'false', from a form or the environment, would count as true. */
export function checkBoolean(option: string, value: unknown): void {
  if (typeof value !== 'boolean') throwOptionError(option, 'true or false', typeof value);
}

/** Rejects unknown names: for a misspelt one, the default would silently apply. `remedies` are sentences by name. */
export function checkNames(
  what: string,
  options: unknown,
  known: ReadonlySet<string>,
  remedies?: Pick<ReadonlyMap<string, string>, 'get'>,
): void {
  checkObject(what, options);
  for (const name of Object.keys(options)) {
    if (known.has(name)) continue;
    const remedy = remedies?.get(name) ?? suggestion(name, known);
    throw new IdempotencyOptionsError(`"${name}" is not an option of ${what}. ${remedy}`);
  }
}

export function checkObject(what: string, options: unknown): asserts options is object {
  if (isObject(options)) return;
  // Not the value itself: it may be a key, passed in the place of the options.
  const given = options === null ? 'null' : typeof options;
  throw new IdempotencyOptionsError(
    `The options of ${what} must be an object, but the type is ${given}.`,
  );
}

/** Suggests similar ones of `paths`, or lists the `known` names. */
export function suggestion(
  name: string,
  paths: Iterable<string>,
  known: Iterable<string> = paths,
): string {
  const near = nearestNames(name, paths).map((each) => JSON.stringify(each));
  const last = near.pop();
  if (last === undefined) return `Valid options: ${[...known].join(', ')}.`;
  const others = near.length === 0 ? '' : `${near.join(', ')} or `;
  return `Did you mean ${others}${last}?`;
}

/** Prefixes an options error with `place`, where the options were set, unless its message names `owner` already. */
export function within<Result>(owner: string, place: string, check: () => Result): Result {
  try {
    return check();
  } catch (error) {
    const isPlaced = !(error instanceof IdempotencyOptionsError) || error.message.includes(owner);
    if (isPlaced) throw error;
    const { message, cause } = error;
    const options = cause === undefined ? undefined : { cause };
    throw new IdempotencyOptionsError(`${place}: ${message}`, options);
  }
}

export function throwOptionError(option: string, expected: string, value: unknown): never {
  throw new IdempotencyOptionsError(
    `The option "${option}" must be ${expected}, but it is ${describe(value)}.`,
  );
}

/** Is notified of a function given as an option that has failed after the effect. */
export interface OptionObserver {
  optionFailed(option: string, error: unknown): void;
}

/** Describes a result by its type only: it may be data. */
export function wrongResult(
  option: string,
  expected: string,
  result: unknown,
): IdempotencyOptionsError {
  forget(result);
  return new IdempotencyOptionsError(
    `The function given as the option "${option}" must return ${expected} synchronously, but it returned ${result === undefined ? 'undefined' : typeName(result)}.`,
  );
}

function describe(value: unknown): string {
  if (isObject(value) || typeof value === 'function') return typeName(value);
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}

/** For a message that must not show the value. */
export function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (!isObject(value)) return `a ${typeof value}`;
  if (Array.isArray(value)) return 'an array';
  return isSettings(value) ? 'an object' : `a ${kindOf(value)}`;
}

/**
 * As {@link typeName}, for a value that the application got from elsewhere: names its class, but nothing that the value
 * itself says of its type. Never throws.
 */
export function classOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (!isObject(value)) return `a ${typeof value}`;
  try {
    if (Array.isArray(value)) return 'an array';
    if (isThenable(value)) return 'a promise';
    const name = className(value);
    return name === undefined ? 'an object' : `an instance of ${name}`;
  } catch {
    // A proxy, revoked or not, and a getter may throw anything.
    return 'an object';
  }
}

const IDENTIFIER = /^[\w$]{1,64}$/;

/** The name of a value's class, by its prototype: `Symbol.toStringTag` may be the value. */
function className(value: object): string | undefined {
  const prototype = Object.getPrototypeOf(value) as { readonly constructor?: unknown } | null;
  const type = prototype?.constructor;
  const isNamed =
    typeof type === 'function' && type.name !== 'Object' && IDENTIFIER.test(type.name);
  return isNamed ? type.name : undefined;
}

/** Whether a value can have members: also of an array, and of an instance of any class. */
export function isObject(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === 'object' && value !== null;
}

/** An array, a promise, a `Map` or the like has no members: the defaults would silently apply. */
export function isSettings(value: unknown): value is Record<string, unknown> {
  return isObject(value) && ['Object', 'Module'].includes(kindOf(value));
}

function kindOf(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

/** A copy that has what a class instance inherits, too, such as getters. */
export function completeCopy<Given extends object>(given: Given, names: readonly string[]): Given {
  const present = names.filter((name) => name in Object(given));
  const members = present.map((name) => [name, given[name as keyof Given]] as const);
  return { ...given, ...(Object.fromEntries(members) as Partial<Given>) };
}

/** The unit of a duration is no part of its option's name. */
export function withoutUnit(name: string): string {
  return name.replace(/Ms$/, '');
}

/** How many names to suggest for an abbreviation. */
const AT_MOST = 4;

/** Minimum length of an abbreviation. */
const SHORTEST_PART = 4;

/**
 * Known names that are similar to an unknown one: usually one, none if nothing is close. A path (`lease.duration`) is
 * compared by its last name.
 */
export function nearestNames(name: string, known: Iterable<string>): string[] {
  // Longer than any option: not worth the time.
  if (name.length > 64) return [];
  const meant = withoutUnit(name).toLowerCase();
  const names = [...known].map((each) => {
    const last = each.slice(each.lastIndexOf('.') + 1).toLowerCase();
    return { each, last, distance: editDistance(meant, last) };
  });
  const limit = Math.max(1, Math.floor(name.length / 3));
  const least = Math.min(...names.map(({ distance }) => distance));
  if (least <= limit) {
    return names.filter(({ distance }) => distance === least).map(({ each }) => each);
  }
  if (name.length < SHORTEST_PART) return [];
  const longer = names.filter(({ last }) => last.includes(meant));
  return longer.slice(0, AT_MOST).map(({ each }) => each);
}

/** Wrong, missing, extra and transposed letters (Damerau–Levenshtein distance). */
export function editDistance(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const isSame = left[i - 1] === right[j - 1];
      const isSwapped = left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped ? (beforeLast[j - 2] ?? 0) + 1 : Infinity,
      );
    }
    beforeLast = last;
    last = row;
  }
  return last[right.length] ?? 0;
}
