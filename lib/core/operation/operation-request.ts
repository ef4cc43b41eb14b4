import type { Transport } from '../record/events.js';
import type { RecordName } from '../record/digests.js';
import type { Fingerprint, RecordKey } from '../record/record.js';
import { scopeText } from '../record/record-key.js';
import { InvalidScope, readScope, type Scope, type ScopePart } from '../record/scope.js';
import type { ResolvedProtocolOptions } from './options.js';

/** What a transport knows of one request to run an operation. */
export interface ReceivedRequest {
  /** Of the operation's input: another fingerprint under the same key is a mismatch. */
  readonly fingerprint: Fingerprint;
  readonly operation: string;
  /** `undefined` for the reconciler, which serves no request. */
  readonly transport?: Transport | undefined;
  readonly scope: Scope;
  /** The operation within which the key is unique; `undefined`: all operations of the scope. */
  readonly keyOperation: string | undefined;
  readonly key: string;
  readonly options: ResolvedProtocolOptions;
  /** The caller's own limit in milliseconds. It can only shorten `duplicates.timeout`. */
  readonly waitAtMostMs?: number | undefined;
  /** Whether the transport can send a body as a stream: one larger than `outcome.maxBytes` is not read into memory. */
  readonly takesStreams?: boolean | undefined;
  /** Aborted when the client disconnects and no longer waits for the outcome. */
  readonly clientSignal?: AbortSignal | undefined;
}

/** One request to run an operation, as the engine makes it of what the transport knows. */
export interface OperationRequest extends Omit<ReceivedRequest, 'keyOperation'> {
  readonly recordKey: RecordKey;
  /** Under which its record may be, too: while digest keys rotate. */
  readonly otherNames?: readonly RecordName[];
  /** The digest without a key, where digests are protected. */
  readonly plainKey?: RecordKey;
}

/** What is known of an abandoned record, which no request asks for. */
export type AbandonedRequest = Omit<OperationRequest, 'options'>;

/**
 * Names the caller, for the limits of each caller; `undefined` for none: an empty scope, which all share. The first part
 * of a message's scope is its consumer.
 */
export function callerOf(request: OperationRequest): string | undefined {
  const parts = callerPartsOf(request);
  return parts.length === 0 ? undefined : scopeText(parts);
}

export function callerPartsOf({
  scope,
  transport,
}: Pick<ReceivedRequest, 'scope' | 'transport'>): Scope {
  return transport === 'message' ? scope.slice(1) : scope;
}

export type Origin = Pick<OperationRequest, 'operation' | 'scope' | 'key'>;

/**
 * Encodes the origin that a recoverable operation's record contains: base64url of JSON `[operation, scope, key]`, with the
 * name of the service as a fourth part, if it has one.
 */
export function originOf({ operation, scope, key }: Origin, service?: string): string {
  // JSON would write `null` for it.
  const named = service === undefined ? [] : [service];
  const parts = [operation, scope.map(jsonOf), key, ...named];
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** Decodes the result of {@link originOf}. Returns `undefined` for any other text. */
export function parseOrigin(
  origin: string,
): (Origin & { readonly service: string | undefined }) | undefined {
  try {
    const parts: unknown = JSON.parse(Buffer.from(origin, 'base64url').toString());
    if (!Array.isArray(parts)) return undefined;
    const [operation, given, key, service] = parts as unknown[];
    if (typeof operation !== 'string' || typeof key !== 'string') return undefined;
    if (service !== undefined && typeof service !== 'string') return undefined;
    if (!Array.isArray(given)) return undefined;
    const scope = readScope(given.map(partOf), true);
    return scope instanceof InvalidScope ? undefined : { operation, scope, key, service };
  } catch {
    return undefined;
  }
}

/** A bigint as an object, before JSON sees it: an application may have given `BigInt.prototype` a `toJSON`. */
function jsonOf(part: ScopePart): unknown {
  return typeof part === 'bigint' ? { bigint: String(part) } : part;
}

const BIGINT = /^(?:0|-?[1-9]\d*)$/;

/** What {@link jsonOf} has written. */
function partOf(json: unknown): unknown {
  const { bigint } = (json ?? {}) as { readonly bigint?: unknown };
  return typeof bigint === 'string' && BIGINT.test(bigint) ? BigInt(bigint) : json;
}
