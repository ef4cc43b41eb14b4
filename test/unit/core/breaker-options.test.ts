import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { BREAKER_DEFAULTS, resolveBreakerOptions } from '../../../lib/core/breaker-options.js';

function messageOf(breaker: unknown): string {
  try {
    resolveBreakerOptions(breaker as never);
  } catch (error) {
    expect(error).toBeInstanceOf(IdempotencyOptionsError);
    return (error as Error).message;
  }
  throw new Error('it was taken');
}

describe('the option "breaker"', () => {
  it('asks for none where it is false or not given', () => {
    expect(resolveBreakerOptions(undefined)).toBeUndefined();
    expect(resolveBreakerOptions(false)).toBeUndefined();
  });

  it('takes the defaults for all that is not given', () => {
    expect(resolveBreakerOptions(true)).toEqual(BREAKER_DEFAULTS);
    expect(resolveBreakerOptions({})).toEqual(BREAKER_DEFAULTS);
    const windowMs = BREAKER_DEFAULTS.windowMs * 2;
    const given = { windowMs, volumeThreshold: undefined } as never;
    expect(resolveBreakerOptions(given)).toEqual({ ...BREAKER_DEFAULTS, windowMs });
  });

  it('is frozen, and not what was given', () => {
    const given = { windowMs: 5_000 };
    const resolved = resolveBreakerOptions(given);
    given.windowMs = 1;
    expect(resolved).toMatchObject({ windowMs: 5_000 });
    expect([resolved, BREAKER_DEFAULTS].every(Object.isFrozen)).toBe(true);
  });

  it.each([
    ['errorThresholdPercentage', 1, 99],
    ['volumeThreshold', 1, 1_000_000],
    ['windowMs', 100, 3_600_000],
    ['probeIntervalMs', 10, 3_600_000],
  ])('has a %s from %d to %d', (option, min, max) => {
    for (const value of [min, max]) {
      expect(resolveBreakerOptions({ [option]: value })).toMatchObject({ [option]: value });
    }
    for (const value of [min - 1, max + 1, min + 0.5, NaN, String(min), null]) {
      const message = messageOf({ [option]: value });
      expect(message).toContain(
        `"breaker.${option}" must be an integer from ${min} to ${max}, but it is `,
      );
      expect(message).toContain(typeof value === 'string' ? `"${value}"` : String(value));
    }
  });

  it.each([
    ['a word', 'on'],
    ['a number', 1],
    ['null', null],
    ['an empty array', []],
    ['an array', [1]],
  ])('is not %s', (_, value) => {
    expect(messageOf(value)).toContain('"breaker" must be true, false or an object');
  });

  it('refuses names that it does not know, and lists those it knows', () => {
    expect(messageOf({ resetTimeout: 5 })).toMatch(/"resetTimeout".*"breaker".*probeIntervalMs/);
  });
});
