import { IdempotencyOptionsError } from '../errors/errors.js';
import { forget } from '../util/maybe-async.js';
import { classOf } from '../options/option-checks.js';

/**
 * One part of a scope, such as a tenant or a user: a non-empty string, a safe integer or a bigint. `7`, `7n` and `'7'` are
 * three parts.
 */
export type ScopePart = string | number | bigint;

/** Whom the key belongs to: its parts, the most general first (tenant, then user). Empty: shared by all callers. */
export type Scope = readonly ScopePart[];

/** What each part of a scope must be, as a sentence for messages. */
export const SCOPE_RULE =
  'Each part of a scope must be a non-empty string, a safe integer or a bigint.';

/** What was given names no valid caller. Not `undefined`, which stands for no caller at all. */
export class InvalidScope {
  /** @param problem - the type of the first invalid part, and its index. Never its value. */
  constructor(readonly problem: string) {}
}

/**
 * The scope of one part or several: a copy, because what was given may read differently the next time.
 * @param mayBeEmpty - whether an empty list is a scope, shared by all callers.
 */
export function readScope(given: unknown, mayBeEmpty = false): Scope | InvalidScope {
  try {
    return Array.isArray(given) ? readParts(given, mayBeEmpty) : readPart(given);
  } catch {
    // A proxy, revoked or not, and a getter may throw anything.
    return new InvalidScope('a value that cannot be read');
  }
}

function readParts(given: readonly unknown[], mayBeEmpty: boolean): Scope | InvalidScope {
  const parts: ScopePart[] = [];
  // By index: every() skips holes, and a derived class may iterate otherwise.
  for (let index = 0; index < given.length; index += 1) {
    const part = given[index];
    if (!isScopePart(part)) {
      // Nothing awaits a promise here: its rejection would end the process.
      for (const each of given.flat()) forget(each);
      return new InvalidScope(`${typeOf(part)} at index ${String(index)}`);
    }
    parts.push(part);
  }
  return parts.length > 0 || mayBeEmpty ? parts : new InvalidScope('an empty array');
}

/** {@link readScope} for one part. Never throws. */
export function readPart(given: unknown): Scope | InvalidScope {
  if (isScopePart(given)) return [given];
  forget(given);
  return new InvalidScope(typeOf(given));
}

/** A scope that was itself given as an option. @throws {@link IdempotencyOptionsError} for an invalid one. */
export function givenScope(read: Scope | InvalidScope): Scope {
  if (!(read instanceof InvalidScope)) return read;
  throw new IdempotencyOptionsError(
    `The option "scope" must be one part or several, but was given ${read.problem}. ${SCOPE_RULE} Convert it first, such as tenant.id.toHexString() for MongoDB's ObjectId.`,
  );
}

/** @param part - no valid one. */
function typeOf(part: unknown): string {
  if (part === '') return 'an empty string';
  if (typeof part !== 'number') return classOf(part);
  return Number.isInteger(part) ? 'an integer beyond 2^53' : 'a number that is no integer';
}

function isScopePart(value: unknown): value is ScopePart {
  if (typeof value === 'string') return value !== '';
  return typeof value === 'bigint' || Number.isSafeInteger(value);
}

/** Whether it is a list of valid parts. Not every(), which skips holes. */
export function isScope(value: unknown): value is Scope {
  if (!Array.isArray(value)) return false;
  for (const part of value as readonly unknown[]) if (!isScopePart(part)) return false;
  return true;
}
