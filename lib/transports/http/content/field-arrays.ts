import { ContentNotComparableError } from '../../../core/canonical-json.js';

/** Empty places in all arrays of a form together: rows that were deleted from a page leave a few. */
const MAX_HOLES = 10_000;

/**
 * Multer makes an array as long as the index in a field's name says (`rows[4000000000]`), and whoever
 * writes it down writes every hole. What lies beyond an array's greatest index is not written at all.
 *
 * @throws {@link ContentNotComparableError}
 */
export function checkFieldArrays(fields: object): void {
  // A set grows while it is gone through, and holds each value once: there may be circles.
  const values = new Set<unknown>([fields]);
  let holes = 0;
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue;
    for (const member of Object.values(value) as unknown[]) values.add(member);
    if (!Array.isArray(value)) continue;
    const indexes = Object.keys(value);
    holes += Math.max(0, value.length - indexes.length);
    if (holes > MAX_HOLES || Number(indexes.at(-1)) >= value.length) {
      throw new ContentNotComparableError(
        'The names of a form\'s fields make arrays with too many holes. Set "limits.fieldArrayIndexLimit" of multer.',
      );
    }
  }
}
