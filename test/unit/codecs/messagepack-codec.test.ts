import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { ValueNotStorableError } from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import { Packr, unpack } from 'msgpackr';
import { kept, nested, rejection } from './support.js';

const codec = messagePackCodec();
const SECRET = 's3cret';
const members = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`m${String(index)}`, index]));

describe('messagePackCodec()', () => {
  // Other values: round-trips.test.ts.
  it.each<[string, unknown]>([
    ['a Date of a whole second', new Date(7_000)],
    ['the first and the last Date', [new Date(-8.64e15), new Date(8.64e15)]],
    ['a Date before 1970', new Date(-1)],
    ['the bounds of 64 bits', [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n]],
    ['a huge BigInt', [2n ** 70_000n, -(2n ** 70_000n)]],
    ['many bytes', { bytes: Buffer.alloc(70_000, 7) }],
    [
      'a string of every length',
      [0, 1, 31, 32, 255, 256, 65_535, 65_536].map((n) => 'ü'.repeat(n)),
    ],
    ['a string with a byte order mark', ['\ufeff', `\ufeff${'ü'.repeat(100)}`]],
    ['a long array', Array.from({ length: 70_000 }, (_, index) => index)],
    ['an object with many members', members(70_000)],
    ['members of every name', { '': 1, 'a b': 2, '10': 3, '\ud800': 4, ['ü'.repeat(100)]: 5 }],
    ['a name with a byte order mark', { [`\ufeff${'x'.repeat(100)}`]: 1 }],
    ['members that JavaScript objects have', { constructor: 'Acme', toJSON: 1, hasOwnProperty: 2 }],
    [
      'an array of what look like tags',
      [
        ['map', 1],
        ['text', 'x'],
        [null, 'set'],
      ],
    ],
    ['500 objects inside each other', nested(500, (inner) => ({ inner }))],
    ['500 Sets inside each other', nested(500, (inner) => new Set([inner]))],
    ['500 Maps inside each other', nested(500, (inner) => new Map([[inner, 1]]))],
  ])('keeps %s', (_, value) => {
    expect(kept(codec, value)).toStrictEqual(value);
  });

  it('keeps an invalid Date', () => {
    expect(kept(codec, [new Date(NaN)])).toEqual([expect.any(Date)]);
    expect(kept(codec, new Date(NaN)).getTime()).toBeNaN();
  });

  describe('rejects what it would lose, with what and where:', () => {
    const circle: { map?: Map<string, unknown> } = {};
    circle.map = new Map([['self', circle]]);
    const map = new Map<unknown, unknown>([[1, 2]]);
    map.set(map, 1);
    const set = new Set<unknown>([1]);
    set.add([set]);

    it.each<[string, unknown, RegExp]>([
      ['a function', { list: [() => 7] }, /^value\.list\[0\] is a function, which MessagePack/],
      ['a symbol', new Map([['a', Symbol('s')]]), /^value\[0\] is a symbol/],
      [
        'a symbol as a key',
        { map: new Map<unknown, number>([[1, 2]]).set(Symbol('s'), 2) },
        /^value\.map\[1\] is a symbol/,
      ],
      ['a circle', [circle], /^value\[0\]\.map\[0\] is a circular reference/],
      ['a Map in itself', { map }, /^value\.map\[1\] is a circular reference/],
      ['a Set in itself', set, /^value\[1\]\[0\] is a circular reference/],
      ['a Float64Array', { list: new Float64Array(1) }, /^value\.list is binary data other than/],
      ['an ArrayBuffer', new Set([new ArrayBuffer(1)]), /^value\[0\] is binary data other than/],
      ['a RegExp', { r: /a/ }, /^value\.r is an instance of RegExp/],
      ['an Error', { e: new Error('bad') }, /^value\.e is an instance of Error/],
      ['an unawaited promise', { p: Promise.resolve(7) }, /^value\.p is an instance of Promise/],
    ])('%s', (_, value, message) => {
      const error = rejection(codec, value);
      expect(error).toBeInstanceOf(ValueNotStorableError);
      expect(error.message).toMatch(message);
    });

    it.each<[string, (inner: unknown) => unknown]>([
      ['objects', (inner) => ({ inner })],
      ['arrays', (inner) => [inner]],
      ['Maps', (inner) => new Map([[1, inner]])],
      ['Sets', (inner) => new Set([inner])],
    ])('more than 500 %s inside each other', (_, wrap) => {
      expect(rejection(codec, nested(501, wrap)).message).toContain('more than 500 levels deep');
    });
  });

  describe('converts to plain data:', () => {
    it('instances, and objects with a toJSON', () => {
      class Money {
        constructor(readonly amount: bigint) {}
      }
      const price = { toJSON: () => ({ amount: 7n }) };
      const value = { money: new Money(7n), price };
      expect(kept<unknown>(codec, value)).toStrictEqual({
        money: { amount: 7n },
        price: { amount: 7n },
      });
    });

    it('instances of subclasses of supported classes', () => {
      class Prices extends Map<string, number> {}
      class Tags extends Set<string> {}
      class Stamp extends Date {}
      class Bytes extends Uint8Array {}
      const value = [new Prices([['a', 1]]), new Tags(['a']), new Stamp(7), Bytes.of(7)];
      const plain = [new Map([['a', 1]]), new Set(['a']), new Date(7), Uint8Array.of(7)];
      expect(kept<unknown>(codec, value)).toStrictEqual(plain);
    });

    it('values from another realm', () => {
      const value: unknown = runInNewContext(
        '({ at: new Date(7), map: new Map([[1, [2]]]), set: new Set([1]) })',
      );
      expect(kept(codec, value)).toStrictEqual({
        at: new Date(7),
        map: new Map([[1, [2]]]),
        set: new Set([1]),
      });
    });

    it('an object that occurs twice: it comes back as two', () => {
      const line = { id: 7 };
      const [one, other] = kept(codec, [line, line]);
      expect([one, other]).toStrictEqual([line, line]);
      expect(one).not.toBe(other);
    });
  });

  it('does not modify what it writes', () => {
    const value = Object.freeze({ list: Object.freeze([new Map([[1, -0]])]), text: '\ud800' });
    const before = structuredClone(value);
    expect(kept<unknown>(codec, value)).toStrictEqual(before);
    expect(value).toStrictEqual(before);
  });

  it('carries no state from one value to the next', () => {
    // With msgpackr's records no other process could read the second one.
    expect(kept(codec, { __keys__: 1, highByte: 1 })).toStrictEqual({ __keys__: 1, highByte: 1 });
    expect(kept(codec, {})).toStrictEqual({});
    const [first, , again] = [{ a: 1 }, { b: { a: 2 } }, { a: 1 }].map((value) =>
      codec.encode(value),
    );
    expect(again).toEqual(first);
  });

  it('writes bytes that another process reads without earlier ones', () => {
    for (const value of [{ a: 1 }, { a: 1 }, new Map([[{ a: 1 }, 1]])]) {
      expect(messagePackCodec().decode(codec.encode(value))).toStrictEqual(value);
    }
  });

  it('writes plain values as any MessagePack', () => {
    const value = { id: 7, list: [1.5, 'ü'], at: new Date(7) };
    expect(unpack(codec.encode(value))).toStrictEqual(value);
  });

  it('shares no memory with the holder of the bytes, and does not modify them', () => {
    const bytes = codec.encode({
      bytes: Buffer.from('paid'),
      list: [Uint8Array.of(1, 2)],
      n: 2n ** 70n,
    });
    const before = Buffer.from(bytes);
    const value = codec.decode(bytes) as { bytes: Buffer; list: Uint8Array[] };
    value.bytes.fill(0);
    value.list[0]!.fill(0);
    expect(bytes).toEqual(before);
    expect(Object.keys(bytes)).toHaveLength(before.length);
    const other = codec.decode(bytes) as typeof value;
    bytes.fill(0);
    expect(other.bytes.toString()).toBe('paid');
    expect([...other.list[0]!]).toEqual([1, 2]);
  });

  it('reads a view of a larger store buffer', () => {
    const bytes = codec.encode({ text: 'ü'.repeat(100), bytes: Buffer.from('paid') });
    const around = new Uint8Array(Buffer.concat([Buffer.alloc(7, 0xc1), bytes, Buffer.alloc(7)]));
    const value = codec.decode(around.subarray(7, 7 + bytes.length));
    expect(value).toStrictEqual({ text: 'ü'.repeat(100), bytes: Buffer.from('paid') });
  });

  it('shares no memory with other users of msgpackr', () => {
    const packr = new Packr();
    const theirs = Buffer.alloc(16_384);
    packr.useBuffer(theirs);
    try {
      const bytes = codec.encode({ a: 'paid' });
      const before = Buffer.from(bytes);
      packr.useBuffer(theirs);
      packr.pack('overwritten '.repeat(100));
      expect(bytes).toEqual(before);
    } finally {
      packr.useBuffer(Buffer.allocUnsafeSlow(8_192));
    }
  });

  it('keeps bytes even if Buffer has a custom toJSON', () => {
    const own = Object.getOwnPropertyDescriptor(Buffer.prototype, 'toJSON')!;
    Buffer.prototype.toJSON = () => ({ type: 'Buffer', data: [] });
    try {
      expect(kept(codec, [Buffer.from('paid')])[0]!.toString()).toBe('paid');
    } finally {
      Object.defineProperty(Buffer.prototype, 'toJSON', own);
    }
  });

  it.each<[string, (bytes: Buffer) => Uint8Array]>([
    ['cut off', (bytes) => bytes.subarray(0, -1)],
    ['followed by other bytes', (bytes) => Buffer.concat([bytes, bytes])],
    ['empty', () => Buffer.alloc(0)],
  ])('rejects stored data that is %s, without quoting it', (_, damaged) => {
    const bytes = damaged(Buffer.from(codec.encode({ text: SECRET })));
    const decode = () => codec.decode(bytes);
    expect(decode).toThrow('The stored value is not valid MessagePack.');
    expect(decode).not.toThrow(SECRET);
  });

  it("never prints a value's content", () => {
    const value = new Map([[SECRET, { [`${SECRET}@example.org`]: [SECRET, () => SECRET] }]]);
    expect(rejection(codec, value).message).not.toContain(SECRET);
  });
});
