import type { ExecutionContext } from '@nestjs/common';
import {
  ContentNotComparableError,
  isOpaque,
  MAX_CONTENT_DEPTH,
} from '../../core/record/canonical-json.js';
import { forget } from '../../core/util/maybe-async.js';
import type { Call } from '../call/call.js';
import { valueFormat } from '../call/outcome-format.js';
import { callerScope } from '../call/value-route.js';
import { payloadContent } from '../common/payload-fingerprint.js';
import { isEnabled } from '../common/request-options.js';
import { KEPT_ERRORS } from './field-error.js';
import { fieldKey, withoutKey } from './field-key.js';
import type { GraphqlField } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';

const CALLER_REMEDY =
  'Let a guard set the user of the request in GraphQL\'s context, with an "id" or a "sub"; or give the option "scope"; or choose by "anonymous" what becomes of such callers.';

/**
 * What a mutation field asks for, or `undefined` where it runs unprotected by the handler's own wish. The checks come in
 * the order of HTTP's: key missing, key malformed, caller unknown, content that cannot be compared.
 *
 * @throws {@link OperationRejectedError}, {@link ContentNotComparableError} where one of them fails.
 */
export async function graphqlCall(
  context: ExecutionContext,
  field: GraphqlField,
  route: GraphqlRoute,
): Promise<Call | undefined> {
  const { operation, options, protocol, codec } = route;
  const key = isEnabled(context, operation, options) ? fieldKey(context, field, route) : undefined;
  if (key === undefined) return undefined;
  const scope = await callerScope(context, route, () => field.user, CALLER_REMEDY);
  if (scope === undefined) return undefined;
  const { info, args } = field;
  const content = payloadContent(
    info.fieldName,
    comparableArguments(typeof options.key === 'function' ? args : withoutKey(args)),
  );
  return {
    operation,
    keyOperation: options.keyScope === 'operation' ? operation : undefined,
    key,
    scope,
    fingerprint: route.fingerprint(content, context),
    keep: options.keep,
    format: valueFormat(codec, KEPT_ERRORS),
    maxStoredBytes: route.maxStoredBytes,
    options: protocol,
    handler: context.getHandler(),
  };
}

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
