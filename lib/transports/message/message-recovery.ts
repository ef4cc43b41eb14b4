import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat, nothingFormat } from '../call/outcome-format.js';
import type { MessageRoute } from './message-route.js';

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
