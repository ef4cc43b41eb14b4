import { inspect, isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonCodec, ValueNotStorableError, type OutcomeCodec } from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { dose } from '../../support/jest/test-all.js';
import { kept } from './support.js';

const RUNS = dose(1_000);

const texts = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ minLength: 30, maxLength: 300 }),
  fc.constantFrom('__proto__', 'constructor', 'toJSON', '__keys__', '\ud800', '\ufeffx', '', '10'),
);
const numbers = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.constantFrom(-0, NaN, Infinity, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 31) - 1, 127, 128, 255, 256),
);
const bigints = fc.oneof(
  fc.bigInt(),
  fc.bigInt({ min: -(2n ** 64n) - 3n, max: 2n ** 64n + 3n }),
  fc.bigInt({ min: -(2n ** 300n), max: 2n ** 300n }),
);

/** Any value made of `leaf`, arrays, objects and, if `isRich`, Maps and Sets. */
function valuesOf(leaf: fc.Arbitrary<unknown>, isRich: boolean): fc.Arbitrary<unknown> {
  return fc.letrec<{ value: unknown }>((tie) => {
    const value = tie('value');
    const containers = [
      fc.array(value, { maxLength: 8 }),
      fc.array(fc.tuple(texts, value), { maxLength: 8 }).map((all) => Object.fromEntries(all)),
    ];
    const rich = [
      fc.array(fc.tuple(value, value), { maxLength: 5 }).map((entries) => new Map(entries)),
      fc.array(value, { maxLength: 5 }).map((elements) => new Set(elements)),
    ];
    const all = isRich ? [...containers, ...rich] : containers;
    return { value: fc.oneof({ maxDepth: 5, depthIdentifier: 'value' }, leaf, ...all) };
  }).value;
}

const plainLeaf = fc.oneof(texts, numbers, fc.boolean(), fc.constant(null));
const richLeaf = fc.oneof(
  plainLeaf,
  bigints,
  fc.constant(undefined),
  fc.date({ noInvalidDate: true }),
  fc.uint8Array(),
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
);

/** The documented JSON form of a supported value. */
function asJson(value: unknown): unknown {
  if (Object.is(value, -0)) return 0;
  if (Array.isArray(value)) return value.map(asJson);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([name, member]) => [name, asJson(member)]));
}

/** Whether anything in `value` is not JSON. */
function isJson(value: unknown): boolean {
  if (Array.isArray(value)) return value.every((item) => item !== undefined && isJson(item));
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return typeof value !== 'bigint';
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.values(value).every(isJson);
}

function writes(codec: OutcomeCodec, value: unknown): boolean {
  try {
    codec.encode(value);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(ValueNotStorableError);
    return false;
  }
}

describe('a codec reads what it has written:', () => {
  const json = jsonCodec();

  it('JSON, for JSON values', () => {
    fc.assert(
      fc.property(valuesOf(plainLeaf, false), (value) => {
        fc.pre(isJson(value));
        expect(isDeepStrictEqual(kept(json, value), asJson(value))).toBe(true);
      }),
      { numRuns: RUNS },
    );
  });

  it('JSON, for any value: it writes only what it can read again', () => {
    let written = 0;
    fc.assert(
      fc.property(valuesOf(richLeaf, true), (value) => {
        const isWritten = writes(json, value);
        expect(isWritten).toBe(value !== undefined && isJson(value));
        if (!isWritten) return;
        written += 1;
        expect(isDeepStrictEqual(kept(json, value), asJson(value))).toBe(true);
      }),
      { numRuns: RUNS },
    );
    expect(written).toBeGreaterThan(RUNS / 50);
  });

  it('MessagePack, for every supported value', () => {
    const codec = messagePackCodec();
    fc.assert(
      fc.property(valuesOf(richLeaf, true), (value) => {
        expect(isDeepStrictEqual(kept(codec, value), value)).toBe(true);
      }),
      { numRuns: RUNS },
    );
  });

  it.each([json, messagePackCodec()])('$name, or rejects it on writing', (codec) => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withObjectString: true,
      withTypedArray: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        // Two invalid dates are not equal in a Map: codecs.test.ts has them.
        fc.pre(!inspect(value, { depth: null }).includes('Invalid Date'));
        if (!writes(codec, value)) return;
        const expected = codec === json ? asJson(value) : value;
        expect(kept(codec, value)).toEqual(expected);
      }),
      { numRuns: RUNS },
    );
  });
});
