import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { recoverableHandler } from '../call/call-recovery.js';
import { valueFormat } from '../call/outcome-format.js';
import type { GraphqlRoute } from './graphql-route.js';

/** How records of a mutation are recovered without a request; `undefined` where it has no function for it. */
export function recoverableMutation(route: GraphqlRoute): RecoverableOperation | undefined {
  return recoverableHandler(route, valueFormat(route.codec));
}
