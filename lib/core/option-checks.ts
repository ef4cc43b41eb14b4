import { IdempotencyOptionsError } from './errors.js';

/** Checks of single option values: each names option, range and value in its message. */

export function checkInteger(option: string, value: unknown, min: number, max: number): void {
  if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max) {
    fail(option, `an integer from ${String(min)} to ${String(max)}`, value);
  }
}

export function checkBoolean(option: string, value: unknown): void {
  if (typeof value !== 'boolean') fail(option, 'true or false', value);
}

/** One of `words`, or a function where `orFunction` says that one is allowed. */
export function checkChoice(
  option: string,
  value: unknown,
  words: readonly (string | boolean)[],
  orFunction?: 'orFunction',
): void {
  if (orFunction !== undefined && typeof value === 'function') return;
  if (!words.includes(value as string)) {
    const choices = words.map((word) => JSON.stringify(word));
    if (orFunction !== undefined) choices.push('a function');
    fail(option, choices.join(', '), value);
  }
}

export function checkFunction(option: string, value: unknown): void {
  if (typeof value !== 'function') fail(option, 'a function', value);
}

/** Refuses names that are no option: a misspelt one would silently leave the default in force. */
export function checkNames(what: string, options: unknown, known: ReadonlySet<string>): void {
  if (typeof options !== 'object' || options === null) {
    // Not the value itself: a call's key may have been given in its place.
    const given = options === null ? 'null' : typeof options;
    throw new IdempotencyOptionsError(
      `The options of ${what} must be an object, but the type is ${given}.`,
    );
  }
  for (const name of Object.keys(options)) {
    if (!known.has(name)) {
      throw new IdempotencyOptionsError(
        `"${name}" is not an option of ${what}. It knows: ${[...known].join(', ')}.`,
      );
    }
  }
}

/** @throws {@link IdempotencyOptionsError} always. */
export function fail(option: string, expected: string, value: unknown): never {
  throw new IdempotencyOptionsError(
    `The option "${option}" must be ${expected}, but it is ${describe(value)}.`,
  );
}

function describe(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? 'an array' : 'an object';
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
