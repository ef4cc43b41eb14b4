import { IdempotencyOptionsError } from '../errors/errors.js';
import { of, type Group } from '../options/option-schema.js';
import type { DigestProtection } from '../record/digests.js';
import type { StoreWarning } from '../record/store-warning.js';
import type { KeyRing } from './key-ring.js';

/** How the names of records are protected from a guess. */
export interface ProtectDigestsOptions {
  /**
   * How many leading parts of a scope have a tag in common, by which their records can be found: with 1, all records of a
   * tenant, if that is the first part. Another number is another name for every record.
   * @defaultValue 'all', from 1 to 16
   */
  readonly scopeTagParts?: number | 'all';
}

export type ResolvedProtectDigests = Required<ProtectDigestsOptions>;

const MAX_PARTS = 16;

export const PROTECT_DIGESTS: Group<ProtectDigestsOptions, ResolvedProtectDigests> = {
  fields: {
    scopeTagParts: of(
      `'all' or an integer from 1 to ${MAX_PARTS}`,
      (value) =>
        value === 'all' ||
        (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_PARTS),
      { default: 'all', range: [1, MAX_PARTS] as const },
    ),
  },
  isSwitched: true,
  places: ['module'],
};

/** @param ring - of the option `secrets`, which the option needs. */
export function protectionOf(
  options: false | ResolvedProtectDigests,
  ring: KeyRing | undefined,
): DigestProtection | undefined {
  if (options === false || ring === undefined) return undefined;
  const { scopeTagParts } = options;
  return {
    keys: () => ring.digestKeys(),
    scopeTagParts: scopeTagParts === 'all' ? Infinity : scopeTagParts,
  };
}

/**
 * Once the keys are loaded.
 * @throws {@link IdempotencyOptionsError} if digests are to be protected by keys that there are not.
 */
export function checkDigestKeysLoaded(
  ring: KeyRing | undefined,
  isProtected: boolean,
): readonly StoreWarning[] {
  const hasKeys = ring?.hasDigestKeys === true;
  if (hasKeys === isProtected) return [];
  if (isProtected) {
    throw new IdempotencyOptionsError(
      'The option "protectDigests" is on, but "secrets" gives no digest keys. Give the ids of one or two keys as "digestKeys": staticKeys({ current, keys, digestKeys: [\'names\'] }).',
    );
  }
  return [
    {
      code: 'digest_keys_unused',
      message:
        'The option "secrets" gives digest keys, but nothing uses them: record keys and fingerprints are SHA-256, of which a guess can be checked. Set "protectDigests" to true, after the steps of a rotation from \'none\' where the application has records, or take "digestKeys" away.',
    },
  ];
}
