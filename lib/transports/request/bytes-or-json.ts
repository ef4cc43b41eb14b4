import { types } from 'node:util';
import { canonicalJson, checkHoles, isOpaque, containersIn } from '../../core/canonical-json.js';
import { IdempotencyOptionsError } from '../../core/errors.js';
import { atOnce } from '../../core/when-ready.js';

/**
 * Content as it is compared: bytes as they are, all else as canonical JSON.
 *
 * @throws {@link ContentNotComparableError} for what JSON cannot express.
 */
export function bytesOrJson(value: unknown): string | Uint8Array {
  return value instanceof Uint8Array ? value : canonicalJson(value);
}

/**
 * The same for what a function of the user's has chosen to be compared. A member that is `undefined` counts as absent.
 *
 * @param option - its name.
 * @param operation - whose option it is.
 * @throws {@link IdempotencyOptionsError} where it has chosen nothing, or something that would be equal whatever it holds.
 * @throws {@link ContentNotComparableError} for other things that JSON cannot express.
 */
export function chosenContent(
  value: unknown,
  option: string,
  operation: string,
): string | Uint8Array {
  if (atOnce(option, value, operation) instanceof Uint8Array) return value as Uint8Array;
  const refuse = (what: string) => {
    throw new IdempotencyOptionsError(
      `The function given as the option "${option}" of ${operation} returned ${what}`,
    );
  };
  if (saysNothing(value)) {
    refuse('undefined, so that nothing is compared: return null where a value may be absent.');
  }
  const containers = containersIn(value);
  checkHoles(containers);
  for (const container of containers) {
    const loss = lossOf(container);
    if (loss !== undefined) {
      refuse(`${loss}, which JSON cannot tell from another one: return plain data.`);
    }
  }
  return canonicalJson(value);
}

/** `undefined`, or an object whose members all are: a misspelt name is one. */
function saysNothing(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value === undefined;
  const members: unknown[] = Object.values(value);
  return members.length > 0 && members.every((member) => member === undefined);
}

/** What JSON would lose; never what it holds. */
function lossOf(container: object): string | undefined {
  if (Array.isArray(container)) {
    // Holes are what a form's fields leave, and count as null.
    return Object.values(container).includes(undefined) ? 'undefined in an array' : undefined;
  }
  if (types.isDate(container)) {
    return Number.isNaN(Date.prototype.getTime.call(container)) ? 'an invalid Date' : undefined;
  }
  return isOpaque(container) ? 'a Map, a promise or another object without members' : undefined;
}
