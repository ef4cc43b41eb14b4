import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { valueFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute, type ValueRouteOptions } from '../call/value-route.js';
import type { KeySyntax } from '../common/idempotency-key.js';

/** The settings of a protected mutation, the same for all its requests. */
export interface GraphqlRoute extends ValueRoute {
  /** The key's header, in lower case; `undefined` where the option `key` is a function. */
  readonly keyField: string | undefined;
  readonly keySyntax: KeySyntax;
}

export interface GraphqlRouteOptions extends ValueRouteOptions {
  readonly keySyntax: KeySyntax;
}

/** @throws {@link IdempotencyOptionsError} for a method that is not a mutation. */
export function graphqlRoute(
  handler: string,
  isMutation: boolean,
  options: GraphqlRouteOptions,
): GraphqlRoute {
  if (!isMutation) {
    throw new IdempotencyOptionsError(
      `${handler} has @Idempotent(), but is not a mutation. Queries, subscriptions and fields of a type may run any number of times. Remove @Idempotent(), or declare the method with @Mutation(). On a resolver's class, @Idempotent() protects only its mutations.`,
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

/** How a mutation's records are recovered without a request; `undefined` where `onTakeover` is not a function. */
export function recoverableMutation(route: GraphqlRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, valueFormat(route.codec));
}
