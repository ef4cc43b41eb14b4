import type { Transport } from '../record/events.js';
import type { Fingerprint, RecordKey } from '../record/record.js';
import { isScopePart, type Scope } from '../record/record-key.js';
import type { ResolvedProtocolOptions } from './options.js';

/** One request to run an operation, as the transports pass it to the engine. */
export interface OperationRequest {
  readonly recordKey: RecordKey;
  readonly fingerprint: Fingerprint;
  readonly operation: string;
  /** `undefined` for the reconciler, which serves no request. */
  readonly transport?: Transport | undefined;
  readonly scope: Scope;
  readonly key: string;
  readonly options: ResolvedProtocolOptions;
  /** The caller's own limit in milliseconds. It can only shorten `duplicates.timeoutMs`. */
  readonly waitAtMostMs?: number | undefined;
  /** Aborted when the client disconnects and no longer waits for the outcome. */
  readonly clientSignal?: AbortSignal | undefined;
}

type Origin = Pick<OperationRequest, 'operation' | 'scope' | 'key'>;

/** Encodes the origin that a recoverable operation's record contains: base64url of JSON `[operation, scope, key]`. */
export function originOf({ operation, scope, key }: Origin): string {
  return Buffer.from(JSON.stringify([operation, scope, key])).toString('base64url');
}

/** Decodes the result of {@link originOf}. Returns `undefined` for any other text. */
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
