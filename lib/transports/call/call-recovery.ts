import { ValueNotStorableError } from '../../core/errors.js';
import { asksToKeep, keepSuccesses } from '../../core/outcome-policy.js';
import type { RecoverableOperation } from '../../core/recover-record.js';
import { VALUE_NOT_KEPT } from './call-outcome.js';
import type { Call } from './call.js';

/** How records of calls are recovered: what was found is kept as if the operation had returned it. */
export function recoverableCall(
  options: RecoverableOperation['options'],
  { keep, format, maxStoredBytes }: Pick<Call, 'keep' | 'format' | 'maxStoredBytes'>,
): RecoverableOperation {
  return {
    options,
    outcomeOf: (value) => {
      if (!asksToKeep(keep, keepSuccesses, {})) return undefined;
      const encoded = format.encode(format.ofFound(value));
      const isKept =
        !(encoded instanceof ValueNotStorableError) &&
        maxStoredBytes !== 'none' &&
        encoded.body.length <= maxStoredBytes;
      return isKept ? encoded : VALUE_NOT_KEPT;
    },
  };
}
