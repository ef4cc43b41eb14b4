import type { RecoverableOperation } from '../../core/recover-record.js';
import { recoverableCall } from '../call/call-recovery.js';
import { emissionsFormat, nothingFormat } from '../call/outcome-format.js';
import type { MessageRoute } from './message-route.js';

/**
 * How records of a message handler are recovered without a message; `undefined` where it has no function for it. What
 * was found is kept as its answer; of an event handler, that it was done.
 */
export function recoverableMessage(route: MessageRoute): RecoverableOperation | undefined {
  const { onTakeover } = route.protocol;
  if (typeof onTakeover !== 'function') return undefined;
  const { keep, maxStoredBytes, storeBody } = route.options;
  const format = route.isEventHandler ? nothingFormat(route.codec) : emissionsFormat(route.codec);
  const isStored = storeBody || route.isEventHandler;
  return recoverableCall(
    { ...route.protocol, onTakeover },
    { keep, format, maxStoredBytes: isStored ? maxStoredBytes : 'none' },
  );
}
