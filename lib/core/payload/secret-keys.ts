import { createSecretKey, type KeyObject } from 'node:crypto';
import { types } from 'node:util';
import { IdempotencyOptionsError } from '../errors/errors.js';
import type { Duration } from '../options/duration.js';
import { checkDuration, checkFunction, checkNames, isObject } from '../options/option-checks.js';
import type { Scope } from '../record/scope.js';
import { KEY_ID } from './frame.js';

/** The id of a key, and the key. */
export type KeyById = readonly [id: string, key: KeyObject];

/** Keys, by their ids. */
export interface LoadedKeys {
  /** The id of the key that encrypts; all others only decrypt. One of `keys`. */
  readonly current: string;
  /**
   * Secret keys of 32 bytes. An id has 1 to 32 characters of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`; it stands in clear in
   * each record, so never give a key's id to another key.
   */
  readonly keys: ReadonlyMap<string, KeyObject>;
  /** See {@link StaticKeysOptions.digestKeys}. */
  readonly digestKeys?: readonly string[];
}

/** A key by which the outcomes of some callers are encrypted. */
export interface ScopeKey {
  /** As in {@link LoadedKeys.keys}, and no id of these but with the same key. */
  readonly id: string;
  /** A secret key of 32 bytes. */
  readonly key: KeyObject;
}

/** Where keys of encryption come from: {@link staticKeys}, {@link envelopeKeys}, or an object of your own. */
export interface SecretKeys {
  /**
   * Called at the start, which fails if it rejects, and then at most every `refresh`; never for each request. If it
   * rejects later, or takes more than 10 seconds, the keys of the last call stay in use, and the event `keys_stale` says so.
   * @param signal - aborted when its result is no longer awaited.
   */
  load(signal: AbortSignal): Promise<LoadedKeys>;
  /**
   * The key of a caller or tenant, in place of `current`: once it is deleted, nothing can decrypt what it encrypted. Called
   * for a scope when its outcome is stored or replayed, and again after `refresh`. If it rejects, or takes more than 10
   * seconds, a key that it gave before stays in use; without one, an outcome is not kept, and a replay gets a 503.
   * @param id - of the key that a stored outcome is encrypted with; `undefined`: the key that encrypts now.
   * @returns `undefined`, or `null` as databases say it: there is none. Then `current` encrypts, and an outcome of such an `id` cannot be decrypted (503).
   */
  keyFor?(
    scope: Scope,
    id: string | undefined,
    signal: AbortSignal,
  ): Promise<ScopeKey | null | undefined>;
  /** How long keys are used before they are loaded again. @defaultValue '5m', from '1s' to '24h' */
  readonly refresh?: Duration;
}

/** A key of 32 bytes: the bytes, or these in base64 or base64url, or a secret `KeyObject`. */
export type KeyMaterial = string | Uint8Array | KeyObject;

/** Options of {@link staticKeys}. */
export interface StaticKeysOptions {
  /** The id of the key that encrypts. */
  readonly current: string;
  /** All keys that records in the store may be encrypted with, by id, and those of `digestKeys`. */
  readonly keys: Readonly<Record<string, KeyMaterial>>;
  /**
   * The ids of the keys of record keys and fingerprints, for the module option `protectDigests`: the first names new
   * records, which are looked up by the others too. `'none'` stands for names without a key, while protection is turned on
   * or off. None is an id of `current`, ever: these keys rotate otherwise.
   * @defaultValue none
   */
  readonly digestKeys?: readonly string[];
}

/** Options of {@link envelopeKeys}. */
export interface EnvelopeKeysOptions {
  /** The id of the key that encrypts. */
  readonly current: string;
  /**
   * All keys that records in the store may be encrypted with, by id, and those of `digestKeys`: encrypted by the KMS, in
   * base64 or base64url.
   */
  readonly wrapped: Readonly<Record<string, string>>;
  /** See {@link StaticKeysOptions.digestKeys}. @defaultValue none */
  readonly digestKeys?: readonly string[];
  /**
   * Decrypts one of them by the KMS, once per process.
   * @returns a key of 32 bytes.
   */
  readonly unwrap: (id: string, bytes: Uint8Array, signal: AbortSignal) => Promise<Uint8Array>;
}

export const KEY_BYTES = 32;

/** The last character has two bits that belong to no byte. */
const KEY_TEXT = /^(?:[A-Za-z0-9+/]{42}|[\w-]{42})[AEIMQUYcgkosw048]=?$/;
const WRAPPED_TEXT = /^(?:[A-Za-z0-9+/]+|[\w-]+)={0,2}$/;

/**
 * Keys that the application has, for example in its environment.
 * @throws {@link IdempotencyOptionsError} if one is no key of 32 bytes. No message contains a key.
 */
export function staticKeys(options: StaticKeysOptions): SecretKeys {
  const what = 'staticKeys()';
  checkNames(what, options, new Set(['current', 'keys', 'digestKeys']));
  const keys = new Map<string, KeyObject>();
  for (const [id, material] of entriesOf(what, 'keys', options.keys)) {
    keys.set(id, keyOf(material) ?? refuse(what, `The key "${id}" is not ${A_KEY}`));
  }
  const { current, digestKeys } = options;
  const loaded = checkedKeys(what, { current, keys, ...(digestKeys && { digestKeys }) });
  return { load: () => Promise.resolve(loaded) };
}

/**
 * Keys that a key management service has encrypted: the application keeps them in that form, and asks the service once
 * for each at the start.
 * @throws {@link IdempotencyOptionsError} if the options are invalid; so rejects the start if `unwrap` gives no key.
 */
export function envelopeKeys(options: EnvelopeKeysOptions): SecretKeys {
  const what = 'envelopeKeys()';
  checkNames(what, options, new Set(['current', 'wrapped', 'unwrap', 'digestKeys']));
  const { current, unwrap, digestKeys } = options;
  checkFunction('unwrap', unwrap);
  const wrapped = new Map<string, Buffer>();
  for (const [id, text] of entriesOf(what, 'wrapped', options.wrapped)) {
    const isText = typeof text === 'string' && WRAPPED_TEXT.test(text);
    if (!isText) refuse(what, `The wrapped key "${id}" is no text in base64.`);
    wrapped.set(id, Buffer.from(text, 'base64'));
  }
  checkCurrent(what, current, wrapped);
  checkDigestKeys(what, digestKeys, current, wrapped);
  const keys = new Map<string, KeyObject>();
  const load = async (signal: AbortSignal) => {
    const missing = [...wrapped].filter(([id]) => !keys.has(id));
    await Promise.all(
      missing.map(async ([id, bytes]) => {
        const key = keyOf(await unwrap(id, bytes, signal));
        keys.set(
          id,
          key ?? refuse(what, `What "unwrap" returned for the key "${id}" is not ${A_KEY}`),
        );
      }),
    );
    return { current, keys, ...(digestKeys && { digestKeys }) };
  };
  return { load };
}

const A_KEY =
  'a key of 32 bytes: a Uint8Array, base64, base64url, or a secret KeyObject. Make one by: openssl rand -base64 32';

/** @throws {@link IdempotencyOptionsError} unless they can be used: `load` may be the application's own. */
export function checkedKeys(what: string, loaded: LoadedKeys | undefined): LoadedKeys {
  const { current, keys, digestKeys } = loaded ?? {};
  if (!types.isMap(keys)) refuse(what, '"keys" must be a Map.');
  for (const [id, key] of keys) {
    checkKey(what, id, key);
  }
  checkCurrent(what, current, keys);
  if (digestKeys === undefined) return { current, keys };
  checkDigestKeys(what, digestKeys, current, keys);
  return { current, keys, digestKeys };
}

/**
 * @param others - keys of which none may have its id: a reader would find that one.
 * @throws {@link IdempotencyOptionsError} unless it can be used.
 */
export function checkedScopeKey(
  what: string,
  given: ScopeKey | null | undefined,
  others: Iterable<KeyById>,
): ScopeKey | undefined {
  if (given === undefined || given === null) return undefined;
  const { id, key } = given;
  checkKey(what, id, key);
  for (const other of others) checkSameKey(what, [id, key], other);
  return { id, key };
}

/** @throws {@link IdempotencyOptionsError} if an id was given to two keys: what one encrypted, the other cannot decrypt. */
export function checkSameKey(what: string, [id, key]: KeyById, [otherId, other]: KeyById): void {
  if (id !== otherId || key.equals(other)) return;
  refuse(what, `The id "${id}" is that of another key already. Give each key an id of its own.`);
}

function checkKey(what: string, id: unknown, key: unknown): void {
  checkId(what, id);
  if (!isKeyObject(key)) refuse(what, `The key "${id}" is no secret KeyObject of 32 bytes.`);
}

/** For the option `secrets`. */
export function checkSecretKeys(option: string, secrets: unknown): void {
  const { load, refresh, keyFor } = isObject(secrets) ? secrets : {};
  if (typeof load !== 'function') {
    refuse(option, 'It must be staticKeys(…), envelopeKeys(…), or an object with load().');
  }
  if (keyFor !== undefined) checkFunction(`${option}.keyFor`, keyFor);
  if (refresh !== undefined) checkDuration(`${option}.refresh`, refresh, '1s', '24h');
}

function entriesOf(what: string, option: string, given: unknown): [string, unknown][] {
  if (!isObject(given)) refuse(what, `"${option}" must be an object with a key for each id.`);
  const entries = Object.entries(given);
  for (const [id] of entries) checkId(what, id);
  return entries;
}

/** Does not show it: it may be a key, in the place of its id. */
function checkId(what: string, id: unknown): asserts id is string {
  const isId = typeof id === 'string' && KEY_ID.test(id);
  if (!isId)
    refuse(
      what,
      "The id of a key must have 1 to 32 characters of A-Z, a-z, 0-9, '.', '_' and '-'.",
    );
}

function checkCurrent(
  what: string,
  current: unknown,
  keys: ReadonlyMap<unknown, unknown>,
): asserts current is string {
  if (!keys.has(current)) refuse(what, '"current" must be the id of one of the keys.');
}

/** Stands for SHA-256 among digest keys. */
export const NO_DIGEST_KEY = 'none';

/** Each is a look-up for every first request. */
const MAX_DIGEST_KEYS = 3;

function checkDigestKeys(
  what: string,
  given: unknown,
  current: string,
  keys: ReadonlyMap<unknown, unknown>,
): void {
  if (given === undefined) return;
  const ids: readonly unknown[] = Array.isArray(given) ? given : [];
  const areKnown = ids.every((id) => id === NO_DIGEST_KEY || keys.has(id));
  const areDifferent = new Set(ids).size === ids.length;
  if (ids.length === 0 || ids.length > MAX_DIGEST_KEYS || !areKnown || !areDifferent) {
    refuse(
      what,
      `"digestKeys" must be a list of 1 to ${MAX_DIGEST_KEYS} different ids of keys, the first for new records; 'none' stands for names without a key.`,
    );
  }
  if (keys.has(NO_DIGEST_KEY)) {
    refuse(what, `No key may have the id 'none', which stands for no key in "digestKeys".`);
  }
  if (ids.includes(current)) {
    refuse(
      what,
      `"digestKeys" must not have the id of "current": a digest key stays when the key of encryption rotates. Add a key of its own.`,
    );
  }
}

function keyOf(material: unknown): KeyObject | undefined {
  if (isKeyObject(material)) return material;
  const bytes =
    typeof material === 'string' && KEY_TEXT.test(material)
      ? Buffer.from(material, 'base64')
      : material;
  const isKey = types.isUint8Array(bytes) && bytes.length === KEY_BYTES;
  return isKey ? createSecretKey(bytes) : undefined;
}

function isKeyObject(value: unknown): value is KeyObject {
  return (
    types.isKeyObject(value) && value.type === 'secret' && value.symmetricKeySize === KEY_BYTES
  );
}

function refuse(what: string, problem: string): never {
  throw new IdempotencyOptionsError(`${what}: ${problem}`);
}
