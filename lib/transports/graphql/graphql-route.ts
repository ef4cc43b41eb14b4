import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { valueFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute } from '../call/value-route.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';

/** The settings of a protected mutation, the same for all its requests. */
export interface GraphqlRoute extends ValueRoute {
  /** The key's header, in lower case; `undefined` where the option `key.from` is a function. */
  readonly keyField: string | undefined;
}

/** @throws {@link IdempotencyOptionsError} for a method that is not a mutation. */
export function graphqlRoute(
  handler: string,
  isMutation: boolean,
  options: ResolvedRequestOptions,
): GraphqlRoute {
  if (!isMutation) {
    throw new IdempotencyOptionsError(
      `${handler} has @Idempotent(), but is not a mutation. Queries, subscriptions and fields of a type may run any number of times. Remove @Idempotent(), or declare the method with @Mutation(). On a resolver's class, @Idempotent() protects only its mutations.`,
    );
  }
  const { from } = options.key;
  const keyField = typeof from === 'string' ? from.toLowerCase() : undefined;
  return Object.freeze({ ...valueRoute(handler, options), keyField });
}

/** How a mutation's records are recovered without a request; `undefined` where `lease.onTakeover` is not a function. */
export function recoverableMutation(route: GraphqlRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, valueFormat(route.options.outcome.codec));
}
