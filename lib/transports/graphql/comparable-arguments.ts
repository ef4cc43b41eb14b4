import {
  ContentNotComparableError,
  isOpaque,
  MAX_CONTENT_DEPTH,
} from '../../core/record/canonical-json.js';
import { forget } from '../../core/util/maybe-async.js';
import type { GraphqlField } from './graphql-field.js';

/**
 * Arguments in a form that cannot be compared by mistake. What a scalar makes of a value may be anything: a promise (an
 * uploaded file), a Map or an instance whose fields are private has no members, so that any two would count as the same.
 * Where such a thing is left out of the comparison, nobody asks for its JSON.
 */
export function comparableArguments(args: GraphqlField['args']): unknown {
  return comparable(args, 0);
}

function comparable(value: unknown, depth: number): unknown {
  // What is nested deeper is refused when it is compared.
  if (typeof value !== 'object' || value === null || depth > MAX_CONTENT_DEPTH) return value;
  // A field that is refused or replayed does not wait for its files.
  forget(value);
  const below = (member: unknown) => comparable(member, depth + 1);
  if (Array.isArray(value)) return value.map(below);
  if (hasMethod(value, 'toJSON') || ArrayBuffer.isView(value)) return value;
  if (hasMethod(value, 'then') || !isObject(value) || isOpaque(value)) return INCOMPARABLE;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, below(member)]));
}

function hasMethod(value: object, name: string): boolean {
  return name in value && typeof (value as Record<string, unknown>)[name] === 'function';
}

/** Input objects, and instances of classes that are nothing but their members. */
function isObject(value: object): boolean {
  return Object.prototype.toString.call(value) === '[object Object]';
}

const INCOMPARABLE = Object.freeze({
  toJSON(): never {
    throw new ContentNotComparableError(
      'An argument cannot be compared: it is a promise, such as an uploaded file, a Map, or an instance of a class without members of its own. Give the class a toJSON method, leave the argument out by the option "fingerprint" ({ exclude: [\'file\'] }), or give a function there.',
    );
  },
});
