import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import { IdempotencyOptionsError } from '../errors/errors.js';
import { FINGERPRINT_LENGTH, NO_FINGERPRINT } from './fingerprint.js';
import type { Fingerprint, RecordKey } from './record.js';
import { identityText, recordKeyWithin, scopeText, serviceText } from './record-key.js';
import type { Scope } from './scope.js';

/** A name under which a record may be stored, and the fingerprint of its request there. */
export interface RecordName {
  readonly recordKey: RecordKey;
  /** `undefined` where the request's content is not known. */
  readonly fingerprint: Fingerprint | undefined;
}

export type RecordNames = readonly [RecordName, ...(readonly RecordName[])];

/** How record keys and fingerprints are protected from a guess: by HMAC-SHA-256 in place of SHA-256. */
export interface DigestProtection {
  /** The digest keys in use: the first names new records. `undefined` stands for SHA-256. */
  keys(): readonly (KeyObject | undefined)[];
  /** How many of a scope's leading parts the tag in front of a record key is made of. */
  readonly scopeTagParts: number;
}

/** What identifies a record, besides the service. */
export interface Identified {
  readonly scope: Scope;
  /** The caller's part of `scope`, for the tag. */
  readonly caller: Scope;
  /** `undefined` if the key is unique across all operations of its scope. */
  readonly operation: string | undefined;
  readonly key: string;
}

/** Each for one purpose: a digest of one can stand for none of another. */
interface DerivedKeys {
  readonly name: KeyObject;
  readonly tag: KeyObject;
  readonly fingerprint: KeyObject;
}

/** 72 bits, 12 characters of base64url exactly: two of 10^8 callers share a tag with a probability of 10^-6. */
const TAG_BYTES = 9;
/** With the tag, as many characters as a SHA-256 has. */
const NAME_BYTES = 23;

/** Makes the digests that name an engine's records. */
export class Digests {
  readonly isProtected: boolean;
  private readonly prefix: string;
  private masters: readonly (KeyObject | undefined)[] | undefined;
  private derived: readonly (DerivedKeys | undefined)[] = [];

  /**
   * @param service - `undefined`: applications that share a store, and name operations alike, share records.
   * @param protection - `undefined`: digests are SHA-256.
   */
  constructor(
    readonly service: string | undefined,
    private readonly protection?: DigestProtection,
  ) {
    this.prefix = serviceText(service);
    this.isProtected = protection !== undefined;
  }

  /**
   * The digest without a key: a record's name where digests are not protected.
   * @param operation - `undefined` if the key is unique across all operations of its scope.
   */
  recordKey(scope: Scope, operation: string | undefined, key: string): RecordKey {
    return recordKeyWithin(this.prefix, scope, operation, key);
  }

  /**
   * The names under which the record of a request may be stored: of each digest key in use, the first for new records.
   * @param fingerprint - without a key.
   */
  names(identified: Identified, fingerprint?: Fingerprint): RecordNames {
    const [first, ...others] = this.keys();
    return [
      this.name(first, identified, fingerprint),
      ...others.map((keys) => this.name(keys, identified, fingerprint)),
    ];
  }

  private name(
    keys: DerivedKeys | undefined,
    { scope, caller, operation, key }: Identified,
    plain: Fingerprint | undefined,
  ): RecordName {
    if (keys === undefined) {
      return { recordKey: this.recordKey(scope, operation, key), fingerprint: plain };
    }
    const text = identityText(this.prefix, scope, operation, key);
    const name = hmac(keys.name, text).toString('base64url', 0, NAME_BYTES);
    const recordKey = `${this.tag(keys, caller)}${name}` as RecordKey;
    const fingerprint = plain && keyedFingerprint(keys, recordKey, plain);
    return { recordKey, fingerprint };
  }

  /**
   * What the record keys of a scope begin with, for each digest key in use: of all scopes with these leading parts, if it
   * has as many as a tag is made of, else of this scope alone. Without a digest key, names have no such prefix.
   * @throws {@link IdempotencyOptionsError} for a scope with more parts: the prefix would be that of others, too.
   */
  scopePrefixes(scope: Scope): string[] {
    const most = this.protection?.scopeTagParts ?? Infinity;
    if (scope.length > most) {
      throw new IdempotencyOptionsError(
        `The records of a scope of ${String(scope.length)} parts cannot be told from those of others: with "protectDigests.scopeTagParts" ${String(most)}, only the records of its first parts can be found together.`,
      );
    }
    return this.keys().flatMap((keys) => (keys === undefined ? [] : [this.tag(keys, scope)]));
  }

  private tag(keys: DerivedKeys, caller: Scope): string {
    const parts = caller.slice(0, this.protection?.scopeTagParts);
    return hmac(keys.tag, this.prefix + scopeText(parts)).toString('base64url', 0, TAG_BYTES);
  }

  /** Derived once, until the source of the keys is asked again. */
  private keys(): readonly (DerivedKeys | undefined)[] {
    const masters = this.protection?.keys() ?? [];
    if (masters === this.masters) return this.derived;
    this.masters = masters;
    return (this.derived = masters.map((master) => master && derivedFrom(master)));
  }
}

/** With the record key: so that equal contents of two records do not look equal. */
function keyedFingerprint(
  { fingerprint: key }: DerivedKeys,
  recordKey: RecordKey,
  fingerprint: Fingerprint,
): Fingerprint {
  // It stands for nothing that could be guessed.
  if (fingerprint === NO_FINGERPRINT) return fingerprint;
  const digest = hmac(key, recordKey + fingerprint).toString('base64url');
  return digest.slice(0, FINGERPRINT_LENGTH) as Fingerprint;
}

function derivedFrom(master: KeyObject): DerivedKeys {
  const of = (purpose: string) =>
    createSecretKey(hmac(master, `nestjs-idempotency/2/${purpose}\0`));
  return { name: of('record-key'), tag: of('scope-tag'), fingerprint: of('fingerprint') };
}

function hmac(key: KeyObject, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
