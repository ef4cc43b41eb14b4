import { asksToKeep } from '../../core/operation/outcome-policy.js';
import type { RecoverableOperation } from '../../core/recovery/recover-record.js';
import { ValueNotStorableError } from '../../core/errors/errors.js';
import type { Call } from './call.js';
import type { OutcomeFormat } from './outcome-format.js';
import type { ValueRoute } from './value-route.js';

/**
 * How records of calls are recovered: a found value is stored as if the operation had returned it. `undefined` unless
 * `lease.onTakeover` is a function.
 */
export function recoverableCall({
  options,
  keep,
  format,
}: Pick<Call, 'options' | 'keep' | 'format'>): RecoverableOperation | undefined {
  const { onTakeover } = options.lease;
  if (typeof onTakeover !== 'function') return undefined;
  return {
    options,
    recover: onTakeover,
    outcomeOf: (value, attempt) => {
      if (!asksToKeep(keep, {}, attempt)) return undefined;
      const encoded = format.encode(format.ofFound(value));
      // A caller would get it. The reconciler has none.
      if (encoded instanceof ValueNotStorableError)
        attempt.optionFailed('lease.onTakeover', encoded);
      const isKept =
        !(encoded instanceof ValueNotStorableError) &&
        options.outcome.storeBody &&
        attempt.keepsBody(encoded.body.length);
      return isKept ? encoded : format.done;
    },
  };
}

/** As {@link recoverableCall}, for a handler: stores a found value as its result. */
export function recoverableHandler(
  { options }: Pick<ValueRoute, 'options'>,
  format: OutcomeFormat,
): RecoverableOperation | undefined {
  const { keep } = options.outcome;
  return recoverableCall({ options, keep, format });
}
