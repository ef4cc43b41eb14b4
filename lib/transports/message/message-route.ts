import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat, nothingFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute, type ValueRouteOptions } from '../call/value-route.js';
import type { ResolvedMessageOptions } from './message-options.js';

/** Everything about a protected message handler that does not change from message to message. */
export interface MessageRoute extends ValueRoute {
  /** Part of every key's scope. */
  readonly consumer: string;
  readonly message: ResolvedMessageOptions;
  /** It was declared by `@EventPattern`: nobody waits for its answer. */
  readonly isEventHandler: boolean;
}

/**
 * @param handler - `Class.method`.
 * @throws {@link IdempotencyOptionsError} where nothing tells who consumes.
 */
export function messageRoute(
  handler: string,
  isEventHandler: boolean,
  options: ValueRouteOptions & { readonly message: ResolvedMessageOptions },
): MessageRoute {
  const { consumer } = options.message;
  if (consumer === undefined) {
    throw new IdempotencyOptionsError(
      `${handler} handles messages, and nothing says who consumes them: set the option "consumer" to the name of the queue or of the consumer group, in @Idempotent({ consumer: '…' }) or in the module's options. Two consumers of one event need two names, or one would take the other's work for done.`,
    );
  }
  const route = valueRoute(handler, options);
  return Object.freeze({ ...route, consumer, message: options.message, isEventHandler });
}

/**
 * How records of a message handler are recovered without a message; `undefined` where it has no function for it. What
 * was found is kept as its answer; of an event handler, that it was done.
 */
export function recoverableMessage(route: MessageRoute): RecoverableOperation | undefined {
  const { codec, isEventHandler, options } = route;
  if (!isEventHandler) return recoverableHandler(route, emissionsFormat(codec));
  const { maxStoredBytes } = options;
  return recoverableHandler({ ...route, maxStoredBytes }, nothingFormat(codec));
}
