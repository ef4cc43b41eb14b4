import type { ExecutionContext } from '@nestjs/common';
import { OperationRejectedError } from '../../core/util/errors.js';
import { atOnce } from '../../core/util/maybe-async.js';
import { keyMissing } from '../call/call-refusals.js';
import { askOption } from '../common/ask-option.js';
import { isOfSyntax, type ParsedKey } from '../common/idempotency-key.js';
import { argumentKey } from './argument-key.js';
import type { GraphqlField } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';
import { headerKey } from './header-key.js';

/**
 * The key of a mutation field, or `undefined` where it has none and needs none.
 *
 * @throws {@link OperationRejectedError} where it has none, or one that cannot be used.
 */
export function fieldKey(
  context: ExecutionContext,
  field: GraphqlField,
  route: GraphqlRoute,
): string | undefined {
  const { operation, options } = route;
  const { key: choose, required } = options;
  const key =
    typeof choose === 'function'
      ? plainKey(
          askOption('key', operation, () => atOnce('key', choose(context), operation)),
          route,
        )
      : askOption('keySyntax', operation, () => keyInField(field, route));
  if (key === false) throw keyMalformed(route);
  if (key === undefined && required) throw keyMissing(operation, remedyFor(route));
  return key;
}

/** The first of the places that has one. */
function keyInField(field: GraphqlField, route: GraphqlRoute): ParsedKey | undefined {
  const own = argumentKey(field.args);
  if (own === undefined) return headerKey(field, route);
  const key = plainKey(own, route);
  return typeof key === 'string' && isOfSyntax(key, route.keySyntax) && key;
}

/** An integer is the same key as its digits. */
function plainKey(value: unknown, { options }: GraphqlRoute): ParsedKey | undefined {
  if (value === undefined) return undefined;
  const key = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
  return typeof key === 'string' && key !== '' && key.length <= options.maxKeyLength && key;
}

function keyMalformed({ operation, options }: GraphqlRoute): OperationRejectedError {
  return new OperationRejectedError(
    `The idempotency key of a field of ${operation} cannot be used: it has to be one text of 1 to ${String(options.maxKeyLength)} characters, and such as the option "keySyntax" allows.`,
    'idempotency_key_invalid',
    undefined,
  );
}

function remedyFor({ options }: GraphqlRoute): string {
  if (typeof options.key === 'function')
    return 'The function given as the option "key" found none.';
  return `Send one for each intended operation, and the same with each repetition of it: as the field's argument "idempotencyKey" (or that member of its argument "input"), or in the request's header ${options.key}.`;
}
