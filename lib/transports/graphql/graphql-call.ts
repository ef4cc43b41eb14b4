import type { ExecutionContext } from '@nestjs/common';
import type { Scope } from '../../core/record-key.js';
import { callerUnknown } from '../call/call-refusals.js';
import type { Call } from '../call/call.js';
import { valueFormat } from '../call/outcome-format.js';
import { isEnabled } from '../request/is-enabled.js';
import { payloadContent } from '../request/payload-fingerprint.js';
import { principalOf, toScope } from '../request/scope.js';
import { withoutKey } from './argument-key.js';
import { comparableArguments } from './comparable-arguments.js';
import { fieldKey } from './field-key.js';
import type { GraphqlField } from './graphql-field.js';
import type { GraphqlRoute } from './graphql-route.js';
import { KEPT_ERRORS } from './kept-errors.js';

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
  const key = isEnabled(context, operation, options)
    ? await fieldKey(context, field, route)
    : undefined;
  const scope = key === undefined ? undefined : await scopeOf(context, field, route);
  if (key === undefined || scope === undefined) return undefined;
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
    maxStoredBytes: options.storeBody ? options.maxStoredBytes : 'none',
    options: protocol,
    handler: context.getHandler(),
  };
}

async function scopeOf(
  context: ExecutionContext,
  { user }: GraphqlField,
  { operation, options }: GraphqlRoute,
): Promise<Scope | undefined> {
  const { scope, anonymous } = options;
  const known = toScope(scope === undefined ? principalOf(user) : await scope(context));
  if (known !== undefined) return known;
  switch (anonymous) {
    case 'reject':
      throw callerUnknown(operation, CALLER_REMEDY);
    case 'ignore':
      return undefined;
    case 'shared':
      return [];
  }
}
