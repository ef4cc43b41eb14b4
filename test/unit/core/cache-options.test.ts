import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { CACHE_DEFAULTS, resolveCacheOptions } from '../../../lib/core/cache-options.js';

function messageOf(cache: unknown): string {
  try {
    resolveCacheOptions(cache as never);
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  }
  throw new Error('it was taken');
}

describe('the option "cache"', () => {
  it('asks for none where it is false or not given', () => {
    expect(resolveCacheOptions(undefined)).toBeUndefined();
    expect(resolveCacheOptions(false)).toBeUndefined();
  });

  it('takes the defaults for all that is not given', () => {
    expect(resolveCacheOptions(true)).toEqual(CACHE_DEFAULTS);
    expect(resolveCacheOptions({})).toEqual(CACHE_DEFAULTS);
    const maxBytes = CACHE_DEFAULTS.maxBytes * 2;
    const given = { maxBytes, maxAgeMs: undefined } as never;
    expect(resolveCacheOptions(given)).toEqual({ ...CACHE_DEFAULTS, maxBytes });
  });

  it('is frozen, and not what was given', () => {
    const given = { maxAgeMs: 5_000 };
    const resolved = resolveCacheOptions(given);
    given.maxAgeMs = 1;
    expect(resolved).toMatchObject({ maxAgeMs: 5_000 });
    expect([resolved, CACHE_DEFAULTS].every(Object.isFrozen)).toBe(true);
  });

  it.each([
    ['maxBytes', 65_536, 68_719_476_736],
    ['maxAgeMs', 1, 86_400_000],
  ])('has a %s from %d to %d', (option, min, max) => {
    for (const value of [min, max]) {
      expect(resolveCacheOptions({ [option]: value })).toMatchObject({ [option]: value });
    }
    for (const value of [min - 1, max + 1, min + 0.5, NaN, String(min), null]) {
      expect(messageOf({ [option]: value })).toContain(
        `"cache.${option}" must be an integer from ${min} to ${max}, but it is `,
      );
    }
  });

  it.each([
    ['a word', 'on'],
    ['a number of bytes', 1_048_576],
    ['null', null],
    ['an array', []],
  ])('is not %s', (_, value) => {
    expect(messageOf(value)).toContain('"cache" must be true, false or an object');
  });

  it('refuses names that it does not know, and lists those it knows', () => {
    expect(messageOf({ max: 5 })).toMatch(/"max".*"cache".*maxBytes, maxAgeMs/);
  });
});
