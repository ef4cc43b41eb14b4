import { hash } from 'node:crypto';
import type { Clock } from '../util/clock.js';
import { IdempotencyOptionsError } from '../util/errors.js';
import type { OwnerToken, RecordKey } from './record.js';

/** One part of a scope, such as a tenant or a user: a non-empty string or a safe integer. */
export type ScopePart = string | number;

/** Whom the key belongs to: its parts, the most general first (tenant, then user). Empty: shared by all callers. */
export type Scope = readonly ScopePart[];

export function isScopePart(value: unknown): value is ScopePart {
  return typeof value === 'string' ? value !== '' : Number.isSafeInteger(value);
}

/** What identifies an operation, from which its record key is derived. */
export interface RecordIdentity {
  readonly scope: Scope;
  /** Omitted if a key is unique across all operations of its scope. */
  readonly operation?: string | undefined;
  readonly key: string;
}

/**
 * Derives the record key. Each part is prefixed with its type and length, so that different parts yield different
 * digests (contract C17, C24). None can be read from it. Throws {@link IdempotencyOptionsError} for an invalid scope.
 */
export function recordKey({ scope, operation, key }: RecordIdentity): RecordKey {
  if (!scope.every(isScopePart)) {
    throw new IdempotencyOptionsError(
      'Each part of the scope of an idempotent operation must be a non-empty string or a safe integer. Check the option "caller.scope" (of a call or method: "scope").',
    );
  }
  let text = operation === undefined ? 'p' : `o${encode(operation)}`;
  text += `${String(scope.length)};`;
  for (const part of scope) text += encode(part);
  return hash('sha256', text + encode(key), 'base64url') as RecordKey;
}

function encode(part: ScopePart): string {
  return typeof part === 'number' ? taggedInteger(part) : tagged(part);
}

/** Base64url as well, but longer than a digest. */
const PROBE_BYTES = 36;

/**
 * A record key for a probe of the store, which no request can have. A fixed one would be in one shard of a cluster, and
 * without that shard every probe would fail.
 */
export function newProbeKey(clock: Clock): RecordKey {
  return randomText(PROBE_BYTES, clock) as RecordKey;
}

/**
 * Prefixes type and length: concatenations stay unambiguous. JSON escapes lone surrogates, which UTF-8 would conflate.
 */
export function tagged(text: string): string {
  return text.isWellFormed() ? prefixed('s', text) : prefixed('j', JSON.stringify(text));
}

/** The same for an integer: 7 and "7" differ. */
function taggedInteger(value: number): string {
  return prefixed('n', String(value));
}

function prefixed(type: string, text: string): string {
  return `${type}${String(text.length)}:${text}`;
}

const TOKEN_BYTES = 16;

/** For few tokens; {@link OwnerTokens} are for many. */
export function newOwnerToken(clock: Clock): OwnerToken {
  return randomText(TOKEN_BYTES, clock) as OwnerToken;
}

/** Draws the bytes of many tokens in one call, which costs more than the bytes. */
export class OwnerTokens {
  private readonly pool = Buffer.alloc(TOKEN_BYTES * 256);
  private used = this.pool.length;

  constructor(private readonly clock: Clock) {}

  next(): OwnerToken {
    const { pool } = this;
    if (this.used === pool.length) {
      this.clock.randomFill(pool);
      this.used = 0;
    }
    const token = pool.toString('base64url', this.used, this.used + TOKEN_BYTES);
    this.used += TOKEN_BYTES;
    return token as OwnerToken;
  }
}

function randomText(length: number, clock: Clock): string {
  const bytes = Buffer.alloc(length);
  clock.randomFill(bytes);
  return bytes.toString('base64url');
}
