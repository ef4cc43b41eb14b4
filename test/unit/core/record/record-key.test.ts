import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { IdempotencyOptionsError } from 'nestjs-idempotency';
import { recordKey, type RecordIdentity } from 'nestjs-idempotency/store';
import { dose } from '../../../support/jest/test-all.js';

/** Few characters that an encoding gives a meaning, so that boundaries move often; lone surrogates too. */
const tricky = fc.constantFrom('a', '1', ':', ';', 's', 'n', 'p', 'o', '"', '\\', 'ü', '😀');
const loneSurrogates = fc.constantFrom('\ud800', '\udfff', '\udc00');
const text = (minLength: number) =>
  fc.string({ unit: fc.oneof(tricky, tricky, loneSurrogates), minLength, maxLength: 4 });
const part = fc.oneof(text(1), fc.integer({ min: -3, max: 12 }));
const identity: fc.Arbitrary<RecordIdentity> = fc.record({
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

function canonical({ scope, operation, key }: RecordIdentity): string {
  return JSON.stringify([scope, operation === undefined ? null : [operation], key]);
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
    ['a BigInt', 1n],
  ])('is rejected for a scope that holds %s', (_, value) => {
    const scope = ['tenant', value] as RecordIdentity['scope'];
    expect(() => recordKey({ scope, operation: 'o', key: 'k' })).toThrow(IdempotencyOptionsError);
    expect(() => recordKey({ scope, operation: 'o', key: 'k' })).toThrow('"scope"');
  });
});

function id(
  scope: RecordIdentity['scope'],
  operation: string | undefined,
  key: string,
): RecordIdentity {
  return { scope, operation, key };
}
