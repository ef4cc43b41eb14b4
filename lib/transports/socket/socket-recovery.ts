import type { RecoverableOperation } from '../../core/recover-record.js';
import { recoverableCall } from '../call/call-recovery.js';
import { emissionsFormat } from '../call/outcome-format.js';
import type { ValueRoute } from '../call/value-route.js';

/**
 * How records of a gateway's handler are recovered without a message; `undefined` where it has no function for it. What
 * was found is kept as its answer.
 */
export function recoverableSocket({
  protocol,
  options,
  codec,
}: ValueRoute): RecoverableOperation | undefined {
  const { onTakeover } = protocol;
  if (typeof onTakeover !== 'function') return undefined;
  const { keep, maxStoredBytes, storeBody } = options;
  return recoverableCall(
    { ...protocol, onTakeover },
    {
      keep,
      format: emissionsFormat(codec),
      maxStoredBytes: storeBody ? maxStoredBytes : 'none',
    },
  );
}
