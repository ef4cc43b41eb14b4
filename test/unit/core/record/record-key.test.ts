import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { recordKey, type RecordIdentity } from 'nestjs-idempotency/store';
import {
  givenParts,
  givenScopes,
  identityOf,
  OneToOne,
  revokedProxies,
  SECRET,
  type GivenValue,
} from '../../../support/callers/caller-values.js';
import { originOf, parseOrigin } from '../../../support/internals/core.js';
import { principalOf, toScope } from '../../../support/internals/transports-common.js';
import { checkRandomly } from '../../../support/jest/random-runs.js';
import { dose, isTestAll } from '../../../support/jest/test-all.js';

/** Few characters that an encoding gives a meaning, so that boundaries move often; lone surrogates too. */
const tricky = fc.constantFrom('a', '1', ':', ';', 's', 'n', 'p', 'o', '"', '\\', 'ü', '😀');
const loneSurrogates = fc.constantFrom('\ud800', '\udfff', '\udc00');
const text = (minLength: number) =>
  fc.string({ unit: fc.oneof(tricky, tricky, loneSurrogates), minLength, maxLength: 4 });
const part = fc.oneof(text(1), fc.integer({ min: -3, max: 12 }), fc.bigInt({ min: -3n, max: 12n }));
const identity: fc.Arbitrary<RecordIdentity> = fc.record({
  service: fc.option(text(1), { nil: undefined }),
  scope: fc.array(part, { maxLength: 3 }),
  operation: fc.option(text(0), { nil: undefined }),
  key: text(0),
});

/**
 * Two triples with the same number of parts that read the same when joined by something that looks like the encoding's
 * separator.
 */
const shifted = fc
  .record({
    pieces: fc.array(fc.constantFrom('a', 'b', '1', 'ü'), { minLength: 4, maxLength: 8 }),
    between: fc.constantFrom('', 's', ':', 's:', 's1:', 's2:', '1;', '1:', 'n1:'),
    cuts: fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat(), fc.nat(), fc.nat()),
  })
  .map(({ pieces, between, cuts }) => {
    const grouped = (...three: number[]): RecordIdentity => {
      const [one = 0, two = 0, last = 0] = three.map((cut) => cut % pieces.length).sort();
      const group = (from: number, to?: number) => pieces.slice(from, to).join(between);
      return {
        operation: group(0, one),
        scope: [group(one, two), group(two, last)].map((part) => part || between || '-'),
        key: group(last),
      };
    };
    return [grouped(...cuts.slice(0, 3)), grouped(...cuts.slice(3))] as const;
  });

function expectEqualOnlyIfSame(one: RecordIdentity, other: RecordIdentity): void {
  const same = canonical(one) === canonical(other);
  expect(recordKey(one) === recordKey(other)).toBe(same);
}

function canonical({ service, scope, operation, key }: RecordIdentity): string {
  const named = [service, operation].map((name) => (name === undefined ? null : [name]));
  return JSON.stringify([identityOf(scope), ...named, key]);
}

describe('a record key', () => {
  it('is equal for equal triples, and for no others', () => {
    fc.assert(fc.property(identity, identity, expectEqualOnlyIfSame), { numRuns: dose(5_000) });
  });

  it('changes when characters move from one part to the next', () => {
    fc.assert(
      fc.property(shifted, ([one, other]) => expectEqualOnlyIfSame(one, other)),
      { numRuns: dose(5_000) },
    );
  });

  const pairs: [string, RecordIdentity, RecordIdentity][] = [
    ['a bigint and its digits', id([1n], 'o', 'k'), id(['1'], 'o', 'k')],
    ['a bigint and a number', id([1n], 'o', 'k'), id([1], 'o', 'k')],
    ['a number and its digits', id([1], 'o', 'k'), id(['1'], 'o', 'k')],
    ['two lone surrogates', id(['\ud800'], 'o', 'k'), id(['\udfff'], 'o', 'k')],
    [
      'a lone surrogate and its replacement character',
      id(['\ud800'], 'o', 'k'),
      id(['�'], 'o', 'k'),
    ],
    [
      'a lone surrogate and the escape of it',
      id(['\ud800'], 'o', 'k'),
      id(['"\\ud800"'], 'o', 'k'),
    ],
    ['a lone surrogate in the key', id(['u'], 'o', '\udc00'), id(['u'], 'o', '\udc01')],
    ['one part and two', id(['a', 'b'], 'o', 'k'), id(['ab'], 'o', 'k')],
    ['two parts the other way round', id(['a', 'b'], 'o', 'k'), id(['b', 'a'], 'o', 'k')],
    ['no scope and an operation that looks like one', id([], 's1:a', 'k'), id(['a'], '', 'k')],
    ['no service and one', id(['u'], 'o', 'k'), { ...id(['u'], 'o', 'k'), service: 's' }],
    [
      'a service and an operation',
      { ...id(['u'], undefined, 'k'), service: 'a' },
      id(['u'], 'a', 'k'),
    ],
    ['no operation and an empty one', id(['u'], undefined, 'k'), id(['u'], '', 'k')],
    [
      'the text after a marker inside a part',
      id(['a', 'bs:c'], 'o', 'k'),
      id(['as:b', 'c'], 'o', 'k'),
    ],
    ['the same with lengths', id(['a', 'bs1:c'], 'o', 'k'), id(['as1:b', 'c'], 'o', 'k')],
    ['a part with a length in front of it', id(['s1:a'], 'o', 'k'), id(['a'], 'o', 'k')],
  ];
  it.each(pairs)('distinguishes %s', (_, one, other) => {
    expect(recordKey(one)).not.toBe(recordKey(other));
  });

  it('treats 0 and -0 as the same number', () => {
    expect(recordKey(id([-0], 'o', 'k'))).toBe(recordKey(id([0], 'o', 'k')));
  });

  it('is a SHA-256 in base64url, whatever the input', () => {
    fc.assert(
      fc.property(identity, (one) => {
        expect(recordKey(one)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      }),
    );
  });

  it.each([
    ['an empty string', ''],
    ['a fraction', 1.5],
    ['a number beyond the safe integers', 2 ** 53],
    ['NaN', NaN],
    ['null', null],
    ['undefined', undefined],
    ['an object', {}],
    ['a boolean', true],
  ])('is rejected for a scope that holds %s', (_, value) => {
    const scope = ['tenant', value] as RecordIdentity['scope'];
    expect(() => recordKey({ scope, operation: 'o', key: 'k' })).toThrow(IdempotencyOptionsError);
    expect(() => recordKey({ scope, operation: 'o', key: 'k' })).toThrow('"scope"');
  });
});

/** @param check - returns what is wrong, if anything. */
async function checkValues(
  values: fc.Arbitrary<GivenValue>,
  check: (given: GivenValue) => string | undefined,
): Promise<void> {
  await checkRandomly({
    values,
    runs: isTestAll ? 100_000 : 5_000,
    atOnce: 1_000,
    check: async (given) => given.map(check),
  });
}

describe('a value of any type, given as a caller', () => {
  const patched = BigInt.prototype as { toJSON?: () => string };

  // As many applications do for their responses.
  beforeEach(() => {
    patched.toJSON = function (this: bigint) {
      return String(this);
    };
  });
  afterEach(() => {
    delete patched.toJSON;
  });

  /** What is wrong, if anything, with what `read` makes of a value. */
  function mistakeOf(
    { value, meaning }: GivenValue,
    read: (value: unknown) => RecordIdentity['scope'] | undefined,
    seen: OneToOne,
  ): string | undefined {
    let scope: RecordIdentity['scope'] | undefined;
    try {
      scope = read(value);
    } catch (error) {
      const { message } = error as Error;
      if (!(error instanceof IdempotencyOptionsError)) return `not an options error: ${message}`;
      if (meaning.kind !== 'invalid') return `refused: ${message}`;
      if (message.includes(SECRET)) return `the value itself: ${message}`;
      const isNamed = message.includes(` ${meaning.type}. `) && message.includes('Payments.pay');
      return isNamed ? undefined : `not named: ${message}`;
    }
    if (meaning.kind === 'none') return scope === undefined ? undefined : 'a caller from nowhere';
    if (meaning.kind === 'invalid') return `${meaning.type} is accepted`;
    if (scope === undefined) return 'a valid caller counts as none';
    const found = { operation: 'Payments.pay', scope, key: 'k' };
    const restored = parseOrigin(originOf(found));
    if (restored === undefined || recordKey(restored) !== recordKey(found)) return 'another origin';
    return seen.compare(identityOf(meaning.parts), recordKey(found));
  }

  const ofScopes = (value: unknown) => toScope(value, 'Payments.pay');
  const ofMessages = (value: unknown) => toScope(value, 'Payments.pay', 'caller.scope', true);
  const isEmpty = ({ meaning }: GivenValue) =>
    meaning.kind === 'parts' && meaning.parts.length === 0;
  const emptyIsInvalid = (given: GivenValue): GivenValue =>
    isEmpty(given)
      ? { value: given.value, meaning: { kind: 'invalid', type: 'an empty array' } }
      : given;

  it('is a part of its own, or refused with its type, as the result of a scope function [P27]', async () => {
    const [seen, seenByMessages] = [new OneToOne(), new OneToOne()];
    await checkValues(
      givenScopes,
      (given) =>
        mistakeOf(emptyIsInvalid(given), ofScopes, seen) ??
        mistakeOf(given, ofMessages, seenByMessages),
    );
  }, 300_000);

  it.each(['id', 'sub'])(
    'is one as the %s of a user',
    async (name) => {
      const seen = new OneToOne();
      const read = (value: unknown) => principalOf({ [name]: value }, 'Payments.pay');
      await checkValues(givenParts, (given) => mistakeOf(given, read, seen));
    },
    300_000,
  );

  it.each<[string, (value: unknown) => RecordIdentity['scope'] | undefined, RegExp]>([
    [
      'toString() of an object',
      (value) => ofScopes(value instanceof Date ? value.toString() : value),
      /is accepted|has the record of|another origin|not an options error/,
    ],
    [
      'Number() of a bigint',
      (value) => ofScopes(typeof value === 'bigint' ? Number(value) : value),
      /has the record of|refused/,
    ],
    [
      'Number() of digits',
      (value) =>
        ofScopes(typeof value === 'string' && value !== '' ? Number(value) || value : value),
      /has the record of|refused/,
    ],
    [
      'undefined for what is invalid',
      (value) => {
        try {
          return ofScopes(value);
        } catch {
          return undefined;
        }
      },
      /is accepted/,
    ],
  ])('would be noticed to be read wrongly: %s', async (_, read, objection) => {
    const seen = new OneToOne();
    const checking = checkValues(givenParts, (given) => mistakeOf(given, read, seen));
    await expect(checking).rejects.toThrow(objection);
  });

  it.each([[['a']], [[]], [Promise.resolve('a')], [revokedProxies[1]]])(
    'is refused as the id of a user: case %#',
    (id) => {
      expect(() => principalOf({ id }, 'Payments.pay')).toThrow(IdempotencyOptionsError);
    },
  );

  it.each(revokedProxies.map((value) => [value]))(
    'is refused as a proxy that was revoked: case %#',
    (value) => {
      expect(() => toScope(value, 'Payments.pay')).toThrow(IdempotencyOptionsError);
    },
  );

  it.each<[string, unknown, string]>([
    ['a text', 'alice', 'a string'],
    ['a number', 7, 'a number'],
    ['a bigint', 7n, 'a bigint'],
    ['true', true, 'a boolean'],
    ['a function', () => 'alice', 'a function'],
    ['the rows of a query', [{ id: 'alice' }], 'an array'],
    ['a promise', Promise.resolve({ id: 'alice' }), 'a promise'],
  ])('is refused as a user: %s', (_, user, type) => {
    expect(() => principalOf(user, 'Payments.pay')).toThrow(
      `The user that called Payments.pay is ${type}, not an object`,
    );
  });

  it('is refused as a user whose id cannot be read', () => {
    const user = {
      get id(): never {
        throw new TypeError(SECRET);
      },
    };
    expect(() => principalOf(user, 'Payments.pay')).toThrow('"id" or "sub" of the user');
  });

  it.each<[string, unknown, RecordIdentity['scope'] | undefined]>([
    ['no user', undefined, undefined],
    ['null', null, undefined],
    ['what Passport sets for no user', false, undefined],
    ['a user without id and sub', { name: 'Alice' }, undefined],
    ['a user whose id and sub are null', { id: null, sub: null }, undefined],
    ['a user whose id is null, by the sub', { id: null, sub: 'alice' }, ['alice']],
    ['a user with both, by the id', { id: 7n, sub: 'alice' }, [7n]],
  ])('is read as a user: %s', (_, user, scope) => {
    expect(principalOf(user, 'Payments.pay')).toEqual(scope);
  });

  it('does not change with the list that it was given in', () => {
    const given = ['acme', 7];
    const scope = toScope(given, 'Payments.pay');
    given[1] = 8;
    expect(scope).toEqual(['acme', 7]);
  });
});

function id(
  scope: RecordIdentity['scope'],
  operation: string | undefined,
  key: string,
): RecordIdentity {
  return { scope, operation, key };
}
