import { types } from 'node:util';
import {
  canonicalJson,
  checkHoles,
  ContentNotComparableError,
  containersIn,
  isOpaque,
  type Container,
} from '../../core/record/canonical-json.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { isThenable } from '../../core/util/maybe-async.js';

/**
 * {@link bytesOrJson} for the result of a user's function, given as `option`. An `undefined` member counts as absent,
 * an `undefined` item as `null`.
 * @throws {@link IdempotencyOptionsError} for `undefined`, and for values that are equal whatever they contain.
 * @throws {@link ContentNotComparableError} if all members of an object are `undefined`, because a client may have left
 * them out, and for other values that JSON cannot express.
 */
export function chosenContent(
  value: unknown,
  option: string,
  operation: string,
): string | Uint8Array {
  const selected = `The function given as the option "${option}" of ${operation} returned`;
  return selectedContent(value, selected);
}

/** {@link chosenContent} for a value that is itself given as an option. */
export function givenContent(
  value: unknown,
  option: string,
  operation: string,
): string | Uint8Array {
  return selectedContent(value, `The option "${option}" of ${operation} is`);
}

/** The second parameter starts the messages: "The option … is". */
function selectedContent(value: unknown, selected: string): string | Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (value === undefined) {
    throw new IdempotencyOptionsError(
      `${selected} undefined, so nothing would be compared. Use null for a value that may be absent.`,
    );
  }
  const containers = containersIn(value);
  checkHoles(containers);
  for (const container of containers) {
    const loss = lossOf(container);
    if (loss !== undefined) throw new IdempotencyOptionsError(`${selected} ${loss}`);
  }
  // Pipes have not validated the content yet, so these are mistakes of the client, not of the service.
  if (containers.some(isInvalidDate)) {
    throw new ContentNotComparableError(`${selected} content with an invalid Date.`);
  }
  if (containers.some(isWithoutValue) || isWithoutAny(containers)) {
    throw new ContentNotComparableError(
      `${selected} content whose members, or those of an object in it, are all undefined, so there is nothing to compare. The client left them out, or a name is misspelt. Use null for a value that may be absent.`,
    );
  }
  return canonicalJson(value);
}

function isInvalidDate({ value }: Container): boolean {
  return types.isDate(value) && Number.isNaN(Date.prototype.getTime.call(value));
}

/** Whether all members of an object are `undefined`. Arrays never match: their `undefined` items count as `null`. */
function isWithoutValue({ json }: Container): boolean {
  if (Array.isArray(json)) return false;
  const members = membersOf(json);
  return members.length > 0 && members.every((member) => member === undefined);
}

/** Whether all arrays and objects together contain only `undefined`: no value, and no empty container. */
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

/** What JSON would lose, with the remedy. Never contains the value's content. */
function lossOf({ value, json }: Container): string | undefined {
  if (isThenable(value) || isThenable(json)) {
    return 'a promise, alone or nested. Only synchronous values can be compared.';
  }
  if (json === undefined) return 'an object whose toJSON returns undefined. Return null instead.';
  if (typeof json !== 'object' || json === null || !isOpaque(json)) return undefined;
  return 'a Map, a Set, or an instance of a class without own members (its fields are private, or it has none), alone or nested. JSON writes all of them alike. Use plain data, or give the class a toJSON method.';
}
