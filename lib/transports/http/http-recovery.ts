import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { RESPONSE_NOT_KEPT } from './http-answer.js';
import type { HttpRoute } from './http-route.js';

/**
 * How records of a route are recovered without a request; `undefined` where it has no function for it.
 *
 * Only the fact is kept. The bytes of an answer are what serializers, interceptors and filters make of a value
 * within a request, and there is none: bytes that were made without them could show what those hide.
 */
export function recoverableRoute({ protocol }: HttpRoute): RecoverableOperation | undefined {
  const { onTakeover } = protocol;
  if (typeof onTakeover !== 'function') return undefined;
  return { options: { ...protocol, onTakeover }, outcomeOf: () => RESPONSE_NOT_KEPT };
}
