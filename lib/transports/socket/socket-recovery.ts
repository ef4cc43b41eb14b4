import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { emissionsFormat } from '../call/outcome-format.js';
import type { ValueRoute } from '../call/value-route.js';

/** How records of a gateway's handler are recovered without a message; `undefined` where it has no function for it. */
export function recoverableSocket(route: ValueRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, emissionsFormat(route.codec));
}
