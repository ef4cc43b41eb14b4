import type { ExecutionContext } from '@nestjs/common';
import {
  ContentNotComparableError,
  isOpaque,
  MAX_CONTENT_DEPTH,
} from '../../core/record/canonical-json.js';
import { forget } from '../../core/util/maybe-async.js';
import type { Bypass, Call } from '../call/call.js';
import { valueFormat } from '../call/outcome-format.js';
import { callerScope } from '../call/value-route.js';
import { isEnabled } from '../common/ask-option.js';
import { payloadContent } from '../common/payload-fingerprint.js';
import { KEPT_ERRORS } from './field-error.js';
import { fieldKey, withoutKey } from './field-key.js';
import type { GraphqlField } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';

const CALLER_REMEDY =
  'Let a guard set a user with an "id" or a "sub" on the request in GraphQL\'s context; or set the option "caller.scope"; or allow such callers with the option "caller.anonymous".';

/**
 * The call of a mutation field, or why its options let it run unprotected. Checks in HTTP's order.
 * @throws {@link OperationRejectedError}, {@link ContentNotComparableError} where a check fails.
 */
export async function graphqlCall(
  context: ExecutionContext,
  field: GraphqlField,
  route: GraphqlRoute,
): Promise<Call | Bypass> {
  const { operation, options } = route;
  const { keep, codec } = options.outcome;
  if (!isEnabled(context, operation, options)) return 'disabled';
  const key = fieldKey(context, field, route);
  if (key === undefined) return 'no_key';
  const scope = await callerScope(context, route, () => field.user, CALLER_REMEDY);
  if (scope === undefined) return 'no_caller';
  const { info, args } = field;
  const content = payloadContent(
    info.fieldName,
    comparableArguments(typeof options.key.from === 'function' ? args : withoutKey(args)),
  );
  return {
    operation,
    transport: 'graphql',
    keyOperation: options.key.uniqueFor === 'operation' ? operation : undefined,
    key,
    scope,
    fingerprint: route.fingerprint(content, context),
    keep,
    format: valueFormat(codec, KEPT_ERRORS),
    options,
    handler: context.getHandler(),
  };
}

/**
 * Replaces arguments that cannot be compared with a value that throws when written as JSON. A scalar may return anything:
 * a promise (an uploaded file), a Map or an instance with private fields has no members, so any two would be equal. What
 * the fingerprint excludes is not written as JSON.
 */
export function comparableArguments(args: GraphqlField['args']): unknown {
  return comparable(args, 0);
}

function comparable(value: unknown, depth: number): unknown {
  // Deeper nesting is rejected when the content is compared.
  if (typeof value !== 'object' || value === null || depth > MAX_CONTENT_DEPTH) return value;
  // A rejected or replayed field does not wait for its files.
  forget(value);
  const below = (member: unknown) => comparable(member, depth + 1);
  if (Array.isArray(value)) return value.map(below);
  if (hasMethod(value, 'toJSON') || ArrayBuffer.isView(value)) return value;
  if (hasMethod(value, 'then') || !isInputObject(value) || isOpaque(value)) return INCOMPARABLE;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, below(member)]));
}

function hasMethod(value: object, name: string): boolean {
  return name in value && typeof (value as Record<string, unknown>)[name] === 'function';
}

/** Input objects, and instances of ordinary classes. */
function isInputObject(value: object): boolean {
  return Object.prototype.toString.call(value) === '[object Object]';
}

const INCOMPARABLE = Object.freeze({
  toJSON(): never {
    throw new ContentNotComparableError(
      'An argument cannot be compared: it is a promise (such as an uploaded file), a Map, or a class instance without members of its own. Add toJSON() to the class, exclude the argument with the option "fingerprint" ({ exclude: [\'file\'] }), or set that option to a function.',
    );
  },
});
