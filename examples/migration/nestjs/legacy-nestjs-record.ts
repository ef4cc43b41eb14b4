import { createDecipheriv, createHash, hkdfSync } from 'node:crypto';
import { ConflictException, HttpException } from '@nestjs/common';
import type { IdempotencyContext, Recovery } from 'nestjs-idempotency';

/** What the old module stores of a completed request. */
export type OldPayload =
  | { readonly status: number; readonly body?: unknown; readonly error?: string }
  | { readonly sealed: string };

/** How the old module names and seals its records. */
export interface OldRecords {
  /** What its option `scope` returned for this caller; `undefined` for `scope: false`. */
  readonly scope: (context: IdempotencyContext) => string | undefined;
  /** Its option `encryption.keys`, all of them. */
  readonly keys?: readonly (string | Buffer)[];
}

/** The name of a record, which is also bound to what is sealed. */
export function oldKey(context: IdempotencyContext, { scope }: OldRecords): string {
  const parts = [scope(context), context.key].filter((part) => part !== undefined && part !== '');
  return parts.map((part) => encodeURIComponent(String(part))).join(':');
}

/** A record without a payload is a lock. */
export function outcomeOf(
  payload: OldPayload | null,
  name: string,
  { keys = [] }: OldRecords,
): Recovery {
  if (payload === null) throw new ConflictException('The first request is in progress.');
  const stored = 'sealed' in payload ? unsealed(payload.sealed, name, keys) : payload;
  // Thrown again, as the old module did: the filters of the application respond.
  if (stored.error !== undefined) throw new HttpException(stored.body as object, stored.status);
  return { value: valueOf(stored.body) };
}

type OldResponse = Exclude<OldPayload, { sealed: string }>;

/** `v1.<key id>.<iv>.<ciphertext>.<tag>`, AES-256-GCM. Throws if the key is missing, or the record was changed. */
function unsealed(sealed: string, name: string, keys: readonly (string | Buffer)[]): OldResponse {
  const [version, id, ...parts] = sealed.split('.');
  const [iv, content, tag] = parts.map((part) => Buffer.from(part, 'base64url'));
  const key = keys.map(keyOf).find((each) => idOf(each) === id);
  if (version !== 'v1' || key === undefined || !iv || !content || !tag) {
    throw new Error('A record of the old module is sealed with a key that is not given here.');
  }
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: 16 });
  decipher.setAAD(Buffer.from(name)).setAuthTag(tag);
  const text = Buffer.concat([decipher.update(content), decipher.final()]).toString();
  return JSON.parse(text) as OldResponse;
}

function keyOf(material: string | Buffer): Buffer {
  return typeof material === 'string'
    ? Buffer.from(hkdfSync('sha256', material, '', 'nestjs-idempotency:v1', 32))
    : material;
}

function idOf(key: Buffer): string {
  return createHash('sha256').update(key).digest('base64url').slice(0, 8);
}

/** The old module keeps values, and tags those that JSON does not have. */
function valueOf(stored: unknown): unknown {
  if (Array.isArray(stored)) return stored.map(valueOf);
  if (typeof stored !== 'object' || stored === null) return stored;
  const { __idempotencyType: type, value } = stored as Record<string, any>;
  switch (type) {
    case 'Date':
      return new Date(value ?? NaN);
    case 'BigInt':
      return BigInt(value);
    case 'Bytes':
      return Buffer.from(value, 'base64');
    case 'Map':
      return new Map(value.map((entry: unknown[]) => entry.map(valueOf)));
    case 'Set':
      return new Set(value.map(valueOf));
    case 'Object':
      return membersOf(value);
    default:
      return membersOf(stored);
  }
}

function membersOf(stored: object): object {
  return Object.fromEntries(Object.entries(stored).map(([name, each]) => [name, valueOf(each)]));
}
