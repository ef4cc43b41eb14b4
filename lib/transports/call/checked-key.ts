import { keyInvalid, keyMissing } from './call-refusals.js';
import type { ValueRoute } from './value-route.js';

/**
 * The key that was chosen for a call, or `undefined` where there is none and none is needed.
 *
 * @param remedy - what to do where one is needed, a sentence.
 * @throws {@link OperationRejectedError} where one is missing, or cannot be used.
 */
export function checkedKey(
  chosen: unknown,
  { operation, options: { maxKeyLength, required } }: ValueRoute,
  remedy: string,
): string | undefined {
  if (chosen === undefined) {
    if (required) throw keyMissing(operation, remedy);
    return undefined;
  }
  if (typeof chosen !== 'string' || chosen === '' || chosen.length > maxKeyLength) {
    throw keyInvalid(operation, maxKeyLength);
  }
  return chosen;
}
