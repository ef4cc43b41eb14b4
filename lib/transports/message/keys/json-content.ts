import { ContentNotComparableError } from '../../../core/record/canonical-json.js';

/**
 * Refuses what JSON would write down as something else, so that two values would be taken for one: a date for its text,
 * a `Map` for an empty object, `undefined` in an array for `null`. A member that is `undefined` counts as absent.
 *
 * @param value - nested no deeper than the stack allows: see {@link checkDepth}.
 * @throws {@link ContentNotComparableError}
 */
export function checkIsJson(value: unknown): void {
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
export function checkIsPlain(value: unknown): void {
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
export function saysSomething(value: unknown): boolean {
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
