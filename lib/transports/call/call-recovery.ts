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

/** Recovers a handler's records: stores a found value as its result. `undefined` unless `onTakeover` is a function. */
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
