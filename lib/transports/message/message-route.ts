import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat, nothingFormat } from '../call/outcome-format.js';
import { valueRoute, type ValueRoute, type ValueRouteOptions } from '../call/value-route.js';
import type { ResolvedMessageOptions } from './message-options.js';

/** The settings of a protected message handler, the same for all its messages. */
export interface MessageRoute extends ValueRoute {
  readonly consumer: string;
  readonly message: ResolvedMessageOptions;
  /** Declared by `@EventPattern`: no client waits for a reply. */
  readonly isEventHandler: boolean;
}

/** @throws {@link IdempotencyOptionsError} without the option `consumer`. */
export function messageRoute(
  handler: string,
  isEventHandler: boolean,
  options: ValueRouteOptions & { readonly message: ResolvedMessageOptions },
): MessageRoute {
  const { consumer } = options.message;
  if (consumer === undefined) {
    throw new IdempotencyOptionsError(
      `${handler} handles messages and has no "consumer": set this option to the name of the queue or consumer group, in @Idempotent({ consumer: '…' }) or in the module's options. Two consumers of an event need two names: under one name, only one of them would run.`,
    );
  }
  const route = valueRoute(handler, options);
  return Object.freeze({ ...route, consumer, message: options.message, isEventHandler });
}

/** As {@link recoverableHandler}; but of an event handler, only that it completed is stored. */
export function recoverableMessage(route: MessageRoute): RecoverableOperation | undefined {
  const { codec, isEventHandler, options } = route;
  if (!isEventHandler) return recoverableHandler(route, emissionsFormat(codec));
  const { maxStoredBytes } = options;
  return recoverableHandler({ ...route, maxStoredBytes }, nothingFormat(codec));
}
