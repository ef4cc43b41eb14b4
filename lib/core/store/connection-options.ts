import { IdempotencyOptionsError } from '../errors/errors.js';
import { typeName } from '../options/option-checks.js';
import type { Field } from '../options/option-schema.js';

/** Rejects options that name no connection, or two: that of the application (`theirs`) excludes options of `own`. */
export function checkConnection(
  store: string,
  given: object,
  own: readonly string[],
  theirs = 'client',
): void {
  const isGiven = (name: string) => (given as Record<string, unknown>)[name] !== undefined;
  const besides = own.find(isGiven);
  if (isGiven(theirs) && besides !== undefined) {
    throw new IdempotencyOptionsError(
      `${store}: ${theirs} has its own connection: leave out ${besides}.`,
    );
  }
  if (![theirs, 'url', 'connection'].some(isGiven)) {
    throw new IdempotencyOptionsError(`${store}: one of ${theirs}, url, connection is required.`);
  }
}

type OptionalField = Field<never> & { readonly defaultText: string };

/** An option that may contain a password: the message shows its type only. */
export function secret(
  expected: string,
  accepts: (value: unknown) => boolean,
  defaultText = 'none',
): OptionalField {
  return {
    defaultText,
    check: (option, value) => {
      if (!accepts(value)) throwSecret(option, `be ${expected}`, typeName(value));
    },
  };
}

export function url(schemes: readonly string[], defaultText = 'none'): OptionalField {
  const starts = schemes.map((scheme) => `${scheme}://`);
  return {
    defaultText,
    check: (option, value) => {
      const text = typeof value === 'string' ? value : '';
      if (starts.some((start) => text.startsWith(start) && text !== start)) return;
      // The rest may contain a password.
      const scheme = /^[a-z+.-]*:/i.exec(text)?.[0];
      const found = scheme === undefined ? `a ${typeof value} without a scheme` : `"${scheme}"`;
      throwSecret(option, `begin with ${starts.join(' or ')}`, found);
    },
  };
}

function throwSecret(option: string, expected: string, found: string): never {
  throw new IdempotencyOptionsError(`The option "${option}" must ${expected}, but it is ${found}.`);
}
