import type { ExecutionContext } from '@nestjs/common';
import type { Call } from '../call/call.js';
import { callerScope } from '../call/caller-scope.js';
import { valueFormat } from '../call/outcome-format.js';
import { payloadContent } from '../common/payload-fingerprint.js';
import { isEnabled } from '../common/request-options.js';
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
