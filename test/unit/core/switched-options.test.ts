import { describe, expect, it } from '@jest/globals';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import {
  BREAKER_DEFAULTS,
  resolveBreakerOptions,
} from '../../support/internals/wrappers/breaker.js';
import {
  RECONCILE_DEFAULTS,
  resolveReconcileOptions,
} from '../../support/internals/core/recovery.js';

const OPTIONS = [
  {
    name: 'breaker',
    resolve: resolveBreakerOptions as (given: unknown) => object | undefined,
    defaults: BREAKER_DEFAULTS,
    ranges: {
      errorThresholdPercentage: [1, 99],
      volumeThreshold: [1, 1_000_000],
      windowMs: [100, 3_600_000],
      probeIntervalMs: [10, 3_600_000],
    },
  },
  {
    name: 'reconcile',
    resolve: resolveReconcileOptions as (given: unknown) => object | undefined,
    defaults: RECONCILE_DEFAULTS,
    ranges: { intervalMs: [100, 86_400_000], batchSize: [1, 10_000], afterMs: [0, 86_400_000] },
  },
];

describe.each(OPTIONS)('the option "$name"', ({ name, resolve, defaults, ranges }) => {
  const members = Object.entries<number[]>(ranges) as [string, [min: number, max: number]][];

  function messageOf(given: unknown): string {
    try {
      resolve(given);
    } catch (error) {
      expect(error).toBeInstanceOf(IdempotencyOptionsError);
      return (error as Error).message;
    }
    throw new Error('it was accepted');
  }

  it('is off where it is false or not given', () => {
    expect(resolve(undefined)).toBeUndefined();
    expect(resolve(false)).toBeUndefined();
  });

  it('has defaults for all that is not given', () => {
    const [[first, [min]], [second]] = members as [(typeof members)[0], (typeof members)[0]];
    expect(resolve(true)).toEqual(defaults);
    expect(resolve({})).toEqual(defaults);
    const given = { [first]: min, [second]: undefined };
    expect(resolve(given)).toEqual({ ...defaults, [first]: min });
  });

  it('is frozen, and a copy of what was given', () => {
    const [[first, [min, max]]] = members as [(typeof members)[0]];
    const given = { [first]: max };
    const resolved = resolve(given);
    given[first] = min;
    expect(resolved).toMatchObject({ [first]: max });
    expect([resolved, defaults].every(Object.isFrozen)).toBe(true);
  });

  it.each(members)('has a %s from %j', (option, [min, max]) => {
    for (const value of [min, max]) {
      expect(resolve({ [option]: value })).toMatchObject({ [option]: value });
    }
    for (const value of [min - 1, max + 1, min + 0.5, NaN, String(min), null]) {
      const message = messageOf({ [option]: value });
      expect(message).toContain(
        `"${name}.${option}" must be an integer from ${min} to ${max}, but it is `,
      );
      expect(message).toContain(typeof value === 'string' ? `"${value}"` : String(value));
    }
  });

  it.each(['on', 1, null, [[]], [[1]]])('rejects %j', (value) => {
    expect(messageOf(value)).toContain(`"${name}" must be true, false or an object`);
  });

  it('rejects names that it does not know, and lists those it knows', () => {
    const message = messageOf({ max: 5 });
    expect(message).toMatch(new RegExp(`"max".*"${name}"`));
    for (const [option] of members) expect(message).toContain(option);
  });
});
