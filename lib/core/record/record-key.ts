import { hash } from 'node:crypto';
import type { Clock } from '../util/clock.js';
import { IdempotencyOptionsError } from '../errors/errors.js';
import { classOf } from '../options/option-checks.js';
import type { OwnerToken, RecordKey } from './record.js';
import {
  InvalidScope,
  isScope,
  readScope,
  SCOPE_RULE,
  type Scope,
  type ScopePart,
} from './scope.js';

/** What identifies an operation, from which its record key is derived. */
export interface RecordIdentity {
  /** The module option `service` of the application, if it has one. */
  readonly service?: string | undefined;
  readonly scope: Scope;
  /** Omitted if a key is unique across all operations of its scope. */
  readonly operation?: string | undefined;
  readonly key: string;
}

/**
 * Derives the record key. Each part is prefixed with its type and length, so that different parts yield different
 * digests (contract C17, C24). None can be read from it. Throws {@link IdempotencyOptionsError} for an invalid scope.
 */
export function recordKey(identity: RecordIdentity): RecordKey {
  const { service, scope, operation, key } = identity;
  return recordKeyWithin(serviceText(service), scope, operation, key);
}

/** What a service's record keys have in front; no other text begins so. */
export function serviceText(service: string | undefined): string {
  return service === undefined ? '' : `v${tagged(service)}`;
}

/** @param service - of {@link serviceText}. */
export function recordKeyWithin(
  service: string,
  scope: Scope,
  operation: string | undefined,
  key: string,
): RecordKey {
  return hash('sha256', identityText(service, scope, operation, key), 'base64url') as RecordKey;
}

/** What the digests of a record's name are made of. @param service - of {@link serviceText}. */
export function identityText(
  service: string,
  scope: Scope,
  operation: string | undefined,
  key: string,
): string {
  if (!isScope(scope)) throw scopeError(scope);
  let text = service + (operation === undefined ? 'p' : `o${tagged(operation)}`);
  text += `${String(scope.length)};`;
  for (const part of scope) text += taggedPart(part);
  return text + tagged(key);
}

function scopeError(scope: unknown): IdempotencyOptionsError {
  const read = Array.isArray(scope) ? readScope(scope, true) : undefined;
  const problem = read instanceof InvalidScope ? `has ${read.problem}` : `is ${classOf(scope)}`;
  return new IdempotencyOptionsError(
    `The scope of an idempotent operation ${problem}. ${SCOPE_RULE} Check the option "caller.scope" (of a call or method: "scope").`,
  );
}

/** A text of its own for each list of parts. */
export function scopeText(parts: Scope): string {
  return parts.map(taggedPart).join('');
}

/** In characters, of the key of each request. */
export const RECORD_KEY_LENGTH = 43;

/** Whether a request may have it: not the key of a probe or of a note about a service. */
export function isOfRequest(recordKey: RecordKey): boolean {
  return recordKey.length === RECORD_KEY_LENGTH;
}

const RECORD_KEY = /^[-\w]{43}$/;

/** Whether a text from outside can be a record key. */
export function isRecordKey(text: string): text is RecordKey {
  return RECORD_KEY.test(text);
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

/** Whether it is of {@link newProbeKey}: no request has it, and no other command touches its record. */
export function isProbeKey(recordKey: RecordKey): boolean {
  return recordKey.length === Math.ceil((PROBE_BYTES * 4) / 3);
}

/** How many services of one store can have a note at a time. */
export const NOTE_PLACES = 32;

/** The record key of a note about a service: shorter than a digest, so that no request can have it. */
export function notePlace(place: number): RecordKey {
  return Buffer.from(`service ${String(place)}`).toString('base64url') as RecordKey;
}

/**
 * Prefixes type and length: concatenations stay unambiguous. JSON escapes lone surrogates, which UTF-8 would conflate.
 */
export function tagged(text: string): string {
  return text.isWellFormed()
    ? (SHORT_TAGS[text.length] ?? `s${String(text.length)}:`) + text
    : prefixed('j', JSON.stringify(text));
}

/** Made once: each request has nine. */
const SHORT_TAGS = Array.from({ length: 256 }, (_, length) => `s${String(length)}:`);

/** The same for a part of any type: 7, 7n and "7" differ. */
function taggedPart(part: ScopePart): string {
  switch (typeof part) {
    case 'number':
      return prefixed('n', String(part));
    case 'bigint':
      return prefixed('b', String(part));
    default:
      return tagged(part);
  }
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
