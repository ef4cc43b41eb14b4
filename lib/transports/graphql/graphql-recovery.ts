import type { RecoverableOperation } from '../../core/recover-record.js';
import { recoverableCall } from '../call/call-recovery.js';
import { valueFormat } from '../call/outcome-format.js';
import type { GraphqlRoute } from './graphql-route.js';

/** How records of a mutation are recovered without a request; `undefined` where it has no function for it. */
export function recoverableMutation({
  protocol,
  options,
  codec,
}: GraphqlRoute): RecoverableOperation | undefined {
  const { onTakeover } = protocol;
  if (typeof onTakeover !== 'function') return undefined;
  const { keep, maxStoredBytes, storeBody } = options;
  return recoverableCall(
    { ...protocol, onTakeover },
    { keep, format: valueFormat(codec), maxStoredBytes: storeBody ? maxStoredBytes : 'none' },
  );
}
