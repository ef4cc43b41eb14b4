import { fail } from '../../../core/util/option-checks.js';

/**
 * The names along a dotted path.
 *
 * @throws {@link IdempotencyOptionsError} when it is no text, or a name in it is empty.
 */
export function pathNames(option: string, path: unknown): string[] {
  const names = typeof path === 'string' ? path.split('.') : [];
  if (names.length === 0 || names.includes('')) {
    fail(option, 'a dotted path such as "order.id"', path);
  }
  return names;
}
