import { asksToKeep, keepSuccesses } from '../../core/operation/outcome-policy.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { ValueNotStorableError } from '../../core/util/errors.js';
import type { Call } from './call.js';
import { VALUE_NOT_KEPT } from './call-outcome.js';
import type { OutcomeFormat } from './outcome-format.js';
import type { ValueRoute } from './value-route.js';

/** How records of calls are recovered: a found value is stored as if the operation had returned it. */
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

/**
 * How a handler's records are recovered without a request: a found value is stored as the handler's result. `undefined`
 * where the option `onTakeover` is not a function.
 */
export function recoverableHandler(
  { protocol, options, maxStoredBytes }: ValueRoute,
  format: OutcomeFormat,
): RecoverableOperation | undefined {
  const { onTakeover } = protocol;
  if (typeof onTakeover !== 'function') return undefined;
  return recoverableCall(
    { ...protocol, onTakeover },
    { keep: options.keep, format, maxStoredBytes },
  );
}
