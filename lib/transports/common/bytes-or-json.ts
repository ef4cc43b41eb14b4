import { types } from 'node:util';
import {
  canonicalJson,
  checkHoles,
  ContentNotComparableError,
  containersIn,
  isOpaque,
  type Container,
} from '../../core/record/canonical-json.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { isThenable } from '../../core/util/maybe-async.js';

/**
 * Content as it is compared: bytes as they are, all else as canonical JSON.
 *
 * @throws {@link ContentNotComparableError} for what JSON cannot express.
 */
export function bytesOrJson(value: unknown): string | Uint8Array {
  return value instanceof Uint8Array ? value : canonicalJson(value);
}

/**
 * The same for what a function of the user's has chosen to be compared. A member that is `undefined` counts as absent, an
 * item that is as `null`.
 *
 * @param option - its name.
 * @param operation - whose option it is.
 * @throws {@link IdempotencyOptionsError} where it has chosen nothing, or something that would be equal whatever it holds.
 * @throws {@link ContentNotComparableError} where all members of an object are `undefined`, as a client may leave them, and
 * for other things that JSON cannot express.
 */
export function chosenContent(
  value: unknown,
  option: string,
  operation: string,
): string | Uint8Array {
  const selected = `The function given as the option "${option}" of ${operation} returned`;
  return selectedContent(value, selected);
}

/** As {@link chosenContent}, for what is itself given as an option. */
export function givenContent(
  value: unknown,
  option: string,
  operation: string,
): string | Uint8Array {
  return selectedContent(value, `The option "${option}" of ${operation} is`);
}

/** @param selected - how a sentence begins that says what the value is. */
function selectedContent(value: unknown, selected: string): string | Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (value === undefined) {
    throw new IdempotencyOptionsError(
      `${selected} undefined, so that nothing is compared: use null where a value may be absent.`,
    );
  }
  const containers = containersIn(value);
  checkHoles(containers);
  for (const container of containers) {
    const loss = lossOf(container);
    if (loss !== undefined) throw new IdempotencyOptionsError(`${selected} ${loss}`);
  }
  // Before pipes judge it, a client decides what is there: these are not the service's mistakes.
  if (containers.some(isInvalidDate)) {
    throw new ContentNotComparableError(`${selected} content with an invalid Date.`);
  }
  if (containers.some(isWithoutValue) || isWithoutAny(containers)) {
    throw new ContentNotComparableError(
      `${selected} content whose members are all undefined, or those of an object in it, so that there is nothing to compare: a client left them out, or a name is misspelt. Use null where a value may be absent.`,
    );
  }
  return canonicalJson(value);
}

function isInvalidDate({ value }: Container): boolean {
  return types.isDate(value) && Number.isNaN(Date.prototype.getTime.call(value));
}

/** Whether the members of an object are all `undefined`; an item of an array that is counts as `null`. */
function isWithoutValue({ json }: Container): boolean {
  if (Array.isArray(json)) return false;
  const members = membersOf(json);
  return members.length > 0 && members.every((member) => member === undefined);
}

/** Whether there is nothing in all arrays and objects together but `undefined`: no value, and nothing that is empty. */
function isWithoutAny(containers: readonly Container[]): boolean {
  return (
    containers.length > 0 &&
    containers.every(({ json }) => {
      const members = membersOf(json);
      return members.length > 0 && members.every((member) => !isValue(member));
    })
  );
}

function membersOf(json: unknown): readonly unknown[] {
  return typeof json === 'object' && json !== null ? Object.values(json) : [];
}

function isValue(member: unknown): boolean {
  return member === null || (member !== undefined && typeof member !== 'object');
}

/** What JSON would lose, and the remedy; never what it holds. */
function lossOf({ value, json }: Container): string | undefined {
  if (isThenable(value) || isThenable(json)) {
    return 'a promise, alone or in something else: only what is there at once can be compared.';
  }
  if (json === undefined)
    return 'an object whose toJSON answers undefined: let it answer null instead.';
  if (typeof json !== 'object' || json === null || !isOpaque(json)) return undefined;
  return 'a Map, a Set, or an instance of a class without members of its own (its fields are private, or it has none), alone or in something else: JSON cannot tell it from another one. Use plain data, or give the class a toJSON method.';
}
