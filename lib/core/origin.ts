import type { Claim } from './claim.js';
import { isScopePart } from './record-key.js';

/** What a record key was made of. */
type Origin = Pick<Claim, 'operation' | 'scope' | 'key'>;

/**
 * Where a record comes from, as it stands inside the record of an operation that can be recovered: one word
 * of base64url over the JSON `[operation, scope, key]`.
 */
export function originOf({ operation, scope, key }: Origin): string {
  return Buffer.from(JSON.stringify([operation, scope, key])).toString('base64url');
}

/** What {@link originOf} was given, or `undefined` where the word is none of its own. */
export function parseOrigin(origin: string): Origin | undefined {
  try {
    const parts: unknown = JSON.parse(Buffer.from(origin, 'base64url').toString());
    if (!Array.isArray(parts)) return undefined;
    const [operation, scope, key] = parts as unknown[];
    if (typeof operation !== 'string' || typeof key !== 'string') return undefined;
    if (!Array.isArray(scope) || !scope.every(isScopePart)) return undefined;
    return { operation, scope, key };
  } catch {
    return undefined;
  }
}
