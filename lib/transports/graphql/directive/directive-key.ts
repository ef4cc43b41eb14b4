import { getDirectiveValues, type GraphQLResolveInfo } from 'graphql';
import type { ParsedKey } from '../../request/idempotency-key.js';
import type { FieldInfo } from '../graphql-field.js';
import { idempotentDirective } from './idempotent-directive.js';

/**
 * The key that `@idempotent` gives a field.
 *
 * @returns `undefined` where the directive does not stand, and `false` where no one key can be read from it.
 */
export function directiveKey(info: FieldInfo): ParsedKey | undefined {
  const { fieldNodes, variableValues } = info as unknown as GraphQLResolveInfo;
  try {
    const keys = fieldNodes
      .map((node) => getDirectiveValues(idempotentDirective, node, variableValues))
      .filter((values) => values !== undefined)
      .map(({ key }) => key as string);
    // A field that stands in a document more than once is executed once.
    return new Set(keys).size > 1 ? false : keys[0];
  } catch {
    // The schema has declared it otherwise. Not the cause: its message quotes the key.
    return false;
  }
}
