import type { HttpRoute } from '../transports/http/http-route.js';
import type { Parameter, Reference } from './open-api.js';
import { describeKey, describeRepetitions } from './route-text.js';

const EXAMPLE = '6f1b0d3e-8f0a-4a51-9a5c-2f2f6f0f7c11';
const UUID_LENGTH = 36;

type HeaderParameter = Exclude<Parameter, Reference>;

/** The header with the key; `undefined` where a function of the application finds the key. */
export function keyParameter(route: HttpRoute): HeaderParameter | undefined {
  const { key, required } = route.options;
  if (typeof key === 'function') return undefined;
  return {
    name: key,
    in: 'header',
    required,
    description: `${describeKey(route)}\n\n${describeRepetitions(route)}`,
    schema: keySchema(route),
  };
}

/** Of the key as a client had best write it: bare, unless the syntax wants the quotes. */
function keySchema({ options }: HttpRoute): NonNullable<HeaderParameter['schema']> {
  const { keySyntax, maxKeyLength } = options;
  switch (keySyntax) {
    case 'strict':
      return {
        type: 'string',
        // An escaped character counts as one, which `maxLength` could not say.
        pattern: `^"([ !#-[\\]-~]|\\\\["\\\\]){1,${maxKeyLength}}"`,
        example: `"${EXAMPLE}"`,
      };
    case 'uuid':
      return {
        type: 'string',
        format: 'uuid',
        maxLength: Math.min(UUID_LENGTH, maxKeyLength),
        example: EXAMPLE,
      };
    case 'lenient':
      return { type: 'string', minLength: 1, maxLength: maxKeyLength, example: EXAMPLE };
    default:
      // What a predicate accepts is not known here, so there is no example either.
      return { type: 'string', minLength: 1, maxLength: maxKeyLength };
  }
}
