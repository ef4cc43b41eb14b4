import { hash, randomFillSync } from 'node:crypto';
import { IdempotencyOptionsError } from '../util/errors.js';
import type { OwnerToken, RecordKey } from './record.js';

/** One part of a scope, such as a tenant or a user: a string, or an integer that JavaScript holds exactly. */
export type ScopePart = string | number;

/** Whose key it is: one part or several, the most general first (tenant, then user). None: everybody's. */
export type Scope = readonly ScopePart[];

/** Whether `value` can be a part of a scope: a string that is not empty, or a safe integer. */
export function isScopePart(value: unknown): value is ScopePart {
  return typeof value === 'string' ? value !== '' : Number.isSafeInteger(value);
}

/** What a record key is made of. */
export interface RecordIdentity {
  readonly scope: Scope;
  /** Left out where a key is unique over all operations of its scope. */
  readonly operation?: string | undefined;
  readonly key: string;
}

/**
 * Derives the record key. Every part carries its type and length, so no choice of scope, operation and
 * key yields the digest of another triple (contract C17, C24), and neither stands in it readably.
 *
 * @throws {@link IdempotencyOptionsError} when a part of the scope is not a {@link ScopePart}.
 */
export function recordKey({ scope, operation, key }: RecordIdentity): RecordKey {
  if (!scope.every(isScopePart)) {
    throw new IdempotencyOptionsError(
      'Each part of the scope of an idempotent operation must be a string that is not empty or a safe integer. Check the option "scope".',
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

/**
 * A text with its type and length in front, so that texts put one after another cannot be parted in any
 * other way. UTF-8 turns every lone surrogate into the same replacement character: JSON keeps them apart.
 */
export function tagged(text: string): string {
  return text.isWellFormed() ? prefixed('s', text) : prefixed('j', JSON.stringify(text));
}

/** The same for an integer, which is no text: 7 and "7" are not equal. */
function taggedInteger(value: number): string {
  return prefixed('n', String(value));
}

function prefixed(type: string, text: string): string {
  return `${type}${String(text.length)}:${text}`;
}

const TOKEN_BYTES = 16;
// One call for many tokens: the system call costs more than the bytes.
const pool = Buffer.alloc(TOKEN_BYTES * 256);
let used = pool.length;

/** 128 random bits, new for each attempt. */
export function newOwnerToken(): OwnerToken {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const token = pool.toString('base64url', used, used + TOKEN_BYTES);
  used += TOKEN_BYTES;
  return token as OwnerToken;
}
