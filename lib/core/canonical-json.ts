import { configure } from 'safe-stable-stringify';
import { IdempotencyError } from './errors.js';

/** Containers inside containers that a compared value may have (contract C35). */
export const MAX_CONTENT_DEPTH = 1000;

/** The content has no canonical form: a number that is not finite, or nesting beyond {@link MAX_CONTENT_DEPTH}. */
export class ContentNotComparableError extends IdempotencyError {
  override readonly name = 'ContentNotComparableError';
  readonly code = 'idempotency_content_invalid';
}

// `strict` throws where JSON would write null for a number that is not finite: null is another content.
const stringify = configure({ strict: true, maximumDepth: MAX_CONTENT_DEPTH });

/**
 * A JSON value as text that is equal exactly for equal values: members in a fixed order, no spacing, one
 * spelling per number (binary64) and per character (RFC 8785 in spirit). `undefined` gives the empty text.
 *
 * @throws {@link ContentNotComparableError}
 */
export function canonicalJson(value: unknown): string {
  const text = attempt(value) ?? '';
  // What lies too deep is replaced by one of these texts, which a shallow value may hold as well.
  if (text.includes('"[Object]"') || text.includes('"[Array]"')) checkDepth(value);
  return text;
}

/** @throws {@link ContentNotComparableError} when `value` is nested beyond {@link MAX_CONTENT_DEPTH}. */
export function checkDepth(value: unknown): void {
  if (!isTooDeep(value)) return;
  throw new ContentNotComparableError(
    `The content is nested more than ${String(MAX_CONTENT_DEPTH)} levels deep.`,
  );
}

function attempt(value: unknown): string | undefined {
  try {
    return stringify(value);
  } catch (error) {
    // A value's own toJSON knows better what it is.
    if (error instanceof ContentNotComparableError) throw error;
    throw new ContentNotComparableError(
      'The content holds something that JSON cannot express: a number that is not finite, a BigInt, a function, a symbol or a circle.',
      { cause: error },
    );
  }
}

function isTooDeep(value: unknown): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === MAX_CONTENT_DEPTH) return level.some((container) => !isEmpty(container));
    const members = level.flatMap((container): unknown[] => Object.values(container));
    // Each container once: of a circle there would be more at every level.
    level = [...new Set(members.filter(isContainer))];
  }
  return false;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isEmpty(container: object): boolean {
  return Object.keys(container).length === 0;
}
