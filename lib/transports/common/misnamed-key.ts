import { editDistance } from '../../core/options/option-checks.js';

/** What most services call it. */
const USUAL = 'idempotencykey';

/** Other names of the same: `X-Idempotency-Token`, `Idempotent-Id`. */
const OF_THE_SAME = /^idempoten(?:cy|ce|t)(?:key|id|token)s?$/;

const MOST_MISTAKES = 2;

/**
 * The first of a request's header fields that probably has the key, under a name that is not read: `X-Idempotency-Key`,
 * `Idempotency_Key`, `Idempotent-Key`. Asked only where there is no key.
 * @param field - the name that is read.
 */
export function misnamedKey(names: Iterable<string>, field: string): string | undefined {
  const own = letters(field);
  for (const name of names) {
    if (name.length > USUAL.length + field.length || name.toLowerCase() === field.toLowerCase())
      continue;
    const found = letters(name);
    if (OF_THE_SAME.test(found) || isNear(found, USUAL) || isNear(found, own)) return name;
  }
  return undefined;
}

/** Without separators, and without the prefix of names that are not standard. */
function letters(name: string): string {
  return name.toLowerCase().replace(/[-_.]/g, '').replace(/^x/, '');
}

function isNear(found: string, wanted: string): boolean {
  if (found === wanted) return true;
  // Two of six letters are another word.
  const isComparable = Math.min(found.length, wanted.length) > 4 * MOST_MISTAKES;
  const isClose = Math.abs(found.length - wanted.length) <= MOST_MISTAKES;
  return isComparable && isClose && editDistance(found, wanted) <= MOST_MISTAKES;
}
