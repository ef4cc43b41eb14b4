import type { Fingerprint, RecordKey } from '../record/record.js';
import { isScopePart, type Scope } from '../record/record-key.js';
import type { ResolvedProtocolOptions } from './options.js';

/** One request to run an operation, as the engine needs to know it. */
export interface OperationRequest {
  readonly recordKey: RecordKey;
  readonly fingerprint: Fingerprint;
  /** The operation's stable name. */
  readonly operation: string;
  readonly scope: Scope;
  /** The idempotency key as the client chose it. */
  readonly key: string;
  readonly options: ResolvedProtocolOptions;
  /** The caller's own wish, in milliseconds: shortens `waitTimeoutMs`, never prolongs it. */
  readonly waitAtMostMs?: number | undefined;
  /** Aborted when the caller has left: nobody waits for the outcome any more. */
  readonly clientSignal?: AbortSignal | undefined;
}

/** What a record key was made of. */
type Origin = Pick<OperationRequest, 'operation' | 'scope' | 'key'>;

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
