import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { valueFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute, type ValueRouteOptions } from '../call/value-route.js';
import type { KeySyntax } from '../common/idempotency-key.js';

/** Everything about a protected mutation that does not change from request to request. */
export interface GraphqlRoute extends ValueRoute {
  /** The header that may carry the key, in lower case; `undefined` where a function finds the key. */
  readonly keyField: string | undefined;
  readonly keySyntax: KeySyntax;
}

/** What a mutation's options say about it. */
export interface GraphqlRouteOptions extends ValueRouteOptions {
  readonly keySyntax: KeySyntax;
}

/**
 * @param handler - `Class.method`.
 * @throws {@link IdempotencyOptionsError} for what is no mutation.
 */
export function graphqlRoute(
  handler: string,
  isMutation: boolean,
  options: GraphqlRouteOptions,
): GraphqlRoute {
  if (!isMutation) {
    throw new IdempotencyOptionsError(
      `${handler} has @Idempotent(), and is no mutation: queries, subscriptions and the fields of a type may run as often as they are asked for. Remove it there, or declare the method by @Mutation(). On a resolver's class, @Idempotent() protects its mutations only.`,
    );
  }
  const { key } = options.request;
  const keyField = typeof key === 'string' ? key.toLowerCase() : undefined;
  return Object.freeze({
    ...valueRoute(handler, options),
    keyField,
    keySyntax: options.keySyntax,
  });
}

/** How records of a mutation are recovered without a request; `undefined` where it has no function for it. */
export function recoverableMutation(route: GraphqlRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, valueFormat(route.codec));
}
