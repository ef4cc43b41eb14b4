import type { Claim } from './claim.js';

/**
 * Where a record comes from, as it stands inside the record of an operation that can be recovered: one word
 * of base64url over the JSON `[operation, scope, key]`.
 */
export function originOf({ operation, scope, key }: Claim): string {
  return Buffer.from(JSON.stringify([operation, scope, key])).toString('base64url');
}
