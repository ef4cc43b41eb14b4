import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat, nothingFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute } from '../call/value-route.js';
import type { ResolvedRequestOptions } from '../common/request-options.js';
import type { ResolvedMessageOptions } from './message-options.js';

/** The options of a message handler with all defaults. */
export interface MessageRouteOptions extends ResolvedRequestOptions {
  readonly message: ResolvedMessageOptions;
}

/** The settings of a protected message handler, the same for all its messages. */
export interface MessageRoute extends ValueRoute {
  readonly consumer: string;
  readonly options: MessageRouteOptions;
  /** Declared by `@EventPattern`: no client waits for a reply. */
  readonly isEventHandler: boolean;
}

/** @throws {@link IdempotencyOptionsError} without the option `message.consumer`. */
export function messageRoute(
  handler: string,
  isEventHandler: boolean,
  options: MessageRouteOptions,
): MessageRoute {
  const { consumer } = options.message;
  if (consumer === undefined) {
    throw new IdempotencyOptionsError(
      `${handler} handles messages and has no "message.consumer": set this option to the name of the queue or consumer group, in @Idempotent({ message: { consumer: '…' } }) or in the module's options. Two consumers of an event need two names: under one name, only one of them would run.`,
    );
  }
  const route = valueRoute(handler, options);
  return Object.freeze({ ...route, options, consumer, isEventHandler });
}

/** As {@link recoverableHandler}; but of an event handler, only that it completed is stored. */
export function recoverableMessage(route: MessageRoute): RecoverableOperation | undefined {
  const { isEventHandler, options } = route;
  const { codec } = options.outcome;
  return recoverableHandler(route, isEventHandler ? nothingFormat(codec) : emissionsFormat(codec));
}
