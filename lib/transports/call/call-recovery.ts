import { ValueNotStorableError } from '../../core/errors.js';
import { asksToKeep, keepSuccesses, type OutcomePolicy } from '../../core/outcome-policy.js';
import type { RecoverableOperation } from '../../core/recover-record.js';
import { encodeValue, VALUE_NOT_KEPT } from './call-outcome.js';

/** How records of plain calls are recovered: what was found is kept as if the operation had returned it. */
export function recoverableCall(
  options: RecoverableOperation['options'],
  keep: OutcomePolicy,
  maxStoredBytes: number,
): RecoverableOperation {
  return {
    options,
    outcomeOf: (value) => {
      if (!asksToKeep(keep, keepSuccesses, {})) return undefined;
      const encoded = encodeValue(value);
      const isKept =
        !(encoded instanceof ValueNotStorableError) && encoded.body.length <= maxStoredBytes;
      return isKept ? encoded : VALUE_NOT_KEPT;
    },
  };
}
