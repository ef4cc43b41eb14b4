import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute } from '../call/value-route.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';

/** What is known of a gateway's handler by its declaration. */
export interface SocketFacts {
  /** `Gateway.method` */
  readonly name: string;
  /** It has the callback of the acknowledgement: a parameter `@Ack()`, or a third one without decorators. */
  readonly takesAck: boolean;
}

/**
 * @param isKeyNamed - the option `key.from` is a string, for this handler or its gateway.
 * @throws {@link IdempotencyOptionsError} for a handler that cannot be protected.
 */
export function socketRoute(
  { name, takesAck }: SocketFacts,
  options: ResolvedRequestOptions,
  isKeyNamed: boolean,
): ValueRoute {
  const route = valueRoute(name, options);
  const { enabled } = route.options;
  if (enabled !== false && takesAck) {
    throw new IdempotencyOptionsError(
      `${route.handler} takes the callback of the acknowledgement itself, with @Ack() or as its third parameter, so its response cannot be stored. Return the response instead, or remove @Idempotent().`,
    );
  }
  if (isKeyNamed) {
    throw new IdempotencyOptionsError(
      `The option "key" of ${route.handler} names a header, but WebSocket messages have no headers. Set "key.from" to a path, { payload: 'orderId' }, or a function, or omit it if the key is the payload's member "idempotencyKey".`,
    );
  }
  return Object.freeze(route);
}

/** How a gateway handler's records are recovered without a message; `undefined` where `onTakeover` is not a function. */
export function recoverableSocket(route: ValueRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, emissionsFormat(route.options.outcome.codec));
}
