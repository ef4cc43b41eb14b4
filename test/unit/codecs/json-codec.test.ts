import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { jsonCodec, ValueNotStorableError } from 'nestjs-idempotency';
import type { JsonCodecOptions } from '../../support/internals/codecs.js';
import { kept, nested, rejection } from './support.js';

const codec = jsonCodec();
const SECRET = 's3cret';

class Money {
  constructor(
    readonly amount: number,
    readonly currency: string,
  ) {}

  get text(): string {
    return `${String(this.amount)} ${this.currency}`;
  }
}

class Decimal {
  asked = 0;

  constructor(private readonly digits: string) {}

  toJSON(): string {
    this.asked += 1;
    return this.digits;
  }
}

class Node {
  readonly self = this;
}

describe('jsonCodec()', () => {
  // Other values: round-trips.test.ts.
  it.each<[string, unknown]>([
    ['the same object twice', Array(2).fill({ id: 7 })],
    ['1,000 objects inside each other', nested(1_000, (inner) => ({ inner }))],
    ['1,000 arrays inside each other', nested(1_000, (inner) => [inner])],
  ])('keeps %s', (_, value) => {
    expect(kept(codec, value)).toStrictEqual(value);
  });

  it('writes only JSON', () => {
    const text = Buffer.from(codec.encode({ id: 7, list: ['ü'] })).toString();
    expect(text).toBe('{"id":7,"list":["ü"]}');
  });

  describe('rejects what JSON would lose, with what and where:', () => {
    const circle: Record<string, unknown> = { list: [{ id: 7 }] };
    circle.self = { again: circle };

    it.each<[string, unknown, RegExp]>([
      ['a BigInt', { n: 7n }, /^value\.n is a BigInt, .* messagePackCodec\(\)/],
      ['a BigInt deep inside', { list: [{ n: 7n }] }, /^value\.list\[0\]\.n is a BigInt/],
      ['a BigInt as the whole', 7n, /^value is a BigInt/],
      ['a Date', { at: new Date(0) }, /^value\.at is a Date, .* jsonCodec\(\{ dates: 'text' \}\)/],
      ['a Map', { map: new Map([[1, 2]]) }, /^value\.map is a Map, .* messagePackCodec\(\)/],
      ['a Set', [new Set([1])], /^value\[0\] is a Set, .* messagePackCodec\(\)/],
      ['a Buffer', { bytes: Buffer.from('a') }, /^value\.bytes is binary data, .*Base64/],
      ['a Uint8Array', { bytes: new Uint8Array(1) }, /^value\.bytes is binary data/],
      ['a Float64Array', { list: new Float64Array(1) }, /^value\.list is binary data/],
      ['an ArrayBuffer', { bytes: new ArrayBuffer(1) }, /^value\.bytes is binary data/],
      ['an undefined item', { list: [1, undefined] }, /^value\.list\[1\] is an undefined item/],

      ['a hole', { list: [1, , 3] }, /^value\.list\[1\] is an undefined item/],
      ['undefined as the whole', undefined, /^value is undefined/],
      ['NaN', { n: NaN }, /^value\.n is a number that is not finite/],
      ['Infinity', [[-Infinity]], /^value\[0\]\[0\] is a number that is not finite/],
      ['a function', { f: () => 7 }, /^value\.f is a function, .*plain data/],
      ['a symbol', { s: Symbol('s') }, /^value\.s is a symbol, .*plain data/],
      ['a circle', circle, /^value\.self\.again is a circular reference/],
      ['an instance in itself', new Node(), /^value\.self is a circular reference/],
      ['a RegExp', { r: /a/ }, /^value\.r is an instance of RegExp/],
      ['an Error', { e: new TypeError('bad') }, /^value\.e is an instance of TypeError/],
      ['an unawaited promise', { p: Promise.resolve(7) }, /^value\.p is an instance of Promise/],
      ['a URLSearchParams', [new URLSearchParams('a=1')], /^value\[0\] is an instance of URLSea/],
      ['a boxed number', { n: Object(NaN) as unknown }, /^value\.n is an instance of Number/],
      ['a WeakMap', { w: new WeakMap() }, /^value\.w is an instance of WeakMap/],
      [
        'a Map of another realm',
        { m: runInNewContext('new Map()') as unknown },
        /^value\.m is a M/,
      ],
    ])('%s', (_, value, message) => {
      const error = rejection(codec, value);
      expect(error).toBeInstanceOf(ValueNotStorableError);
      expect(error.message).toMatch(message);
    });

    it.each<[string, (inner: unknown) => unknown]>([
      ['objects', (inner) => ({ inner })],
      ['arrays', (inner) => [inner]],
      ['instances', (inner) => Object.assign(Object.create({}) as object, { inner })],
      ['the result of toJSON', (inner) => ({ toJSON: () => ({ inner }) })],
    ])('more than 1,000 %s inside each other', (_, wrap) => {
      expect(rejection(codec, nested(1_001, wrap)).message).toContain('more than 1000 levels deep');
      expect(rejection(codec, nested(20_000, wrap)).message).toContain('more than 1000 levels');
    });

    it('a circle, without an endless loop', () => {
      let reads = 0;
      const value = {
        get id() {
          return (reads += 1);
        },
        self: undefined as unknown,
      };
      value.self = value;
      expect(rejection(codec, value).message).toMatch(/^value\.self is a circular reference/);
      expect(reads).toBe(1);
    });
  });

  it("never prints a value's content", () => {
    const secrets = [
      [SECRET, 7n],
      { [`${SECRET}@example.org`]: 7n },
      { a: SECRET, b: Symbol(SECRET) },
      { e: new Error(SECRET) },
      { d: Object.assign(() => 7, { text: SECRET }) },
    ];
    for (const value of secrets) expect(rejection(codec, value).message).not.toContain(SECRET);
    expect(rejection(codec, secrets[1]).message).toMatch(/^value\["…"\] is a BigInt/);
  });

  it('shortens a long path, and keeps its end', () => {
    const deep = nested(300, (inner) => ({ member: inner === 1 ? 7n : inner }));
    const [path] = rejection(codec, deep).message.split(' is a BigInt');
    expect(path!.length).toBeLessThan(220);
    expect(path).toMatch(/^value….*\.member\.member$/);
  });

  describe('converts to plain data:', () => {
    it('an undefined member, which is left out', () => {
      expect(kept(codec, { a: 1, b: undefined })).toStrictEqual({ a: 1 });
    });

    it('an instance, of which the members are kept', () => {
      const value = kept(codec, { price: new Money(7, 'EUR') });
      expect(value).toStrictEqual({ price: { amount: 7, currency: 'EUR' } });
    });

    it('an instance inside of an instance, without a change to either', () => {
      class Line {
        constructor(readonly price: { amount: unknown }) {}
      }
      const decimal = new Decimal('7.10');
      const line = new Line({ amount: decimal });
      expect(kept(codec, [line])).toStrictEqual([{ price: { amount: '7.10' } }]);
      expect(line.price.amount).toBe(decimal);
    });

    it('an object without a prototype', () => {
      const bare = Object.assign(Object.create(null) as object, { a: 1 });
      expect(kept(codec, bare)).toStrictEqual({ a: 1 });
    });

    it('an object with a toJSON, which is called once', () => {
      const price = new Decimal('7.10');
      expect(kept(codec, { price, list: [price] })).toStrictEqual({
        price: '7.10',
        list: ['7.10'],
      });
      expect(price.asked).toBe(2);
    });

    it('an object whose toJSON uses its name argument', () => {
      const named = { toJSON: (name: string) => `I am ${name}` };
      expect(kept(codec, { a: named, b: [named] })).toStrictEqual({ a: 'I am a', b: ['I am 0'] });
      expect(kept(codec, named)).toBe('I am ');
    });

    it('an object whose toJSON returns itself', () => {
      class Row {
        constructor(readonly id: number) {}

        toJSON(): this {
          return this;
        }
      }
      expect(kept(codec, [new Row(7)])).toStrictEqual([{ id: 7 }]);
    });

    it('an array whose toJSON returns itself, which is called once', () => {
      let calls = 0;
      const list = Object.assign([1], { toJSON: () => ((calls += 1) === 1 ? list : null) });
      expect(kept<unknown>(codec, { list })).toStrictEqual({ list: [1] });
    });

    it('an array with a toJSON', () => {
      class Page extends Array<number> {
        toJSON() {
          return { total: this.length };
        }
      }
      expect(kept(codec, { page: Page.of(1, 2, 3) })).toStrictEqual({ page: { total: 3 } });
    });

    it('a Map with a toJSON', () => {
      class Prices extends Map<string, number> {
        toJSON() {
          return Object.fromEntries(this);
        }
      }
      expect(kept<unknown>(codec, new Prices([['a', 1]]))).toStrictEqual({ a: 1 });
    });

    it('a member whose toJSON returns undefined, which is left out', () => {
      expect(kept(codec, { a: { toJSON: () => undefined }, b: 1 })).toStrictEqual({ b: 1 });
    });
  });

  it.each<[string, unknown, RegExp]>([
    ['a BigInt', { toJSON: () => 7n }, /^value\.x is a BigInt/],
    ['a Date', { toJSON: () => new Date(0) }, /^value\.x is a Date/],
    ['what has a BigInt', { toJSON: () => ({ n: 7n }) }, /^value\.x\.n is a BigInt/],
    ['a Promise', { toJSON: () => Promise.resolve(7) }, /^value\.x is an instance of Promise/],
    [
      'a Date in the place of an array',
      Object.assign([1], { toJSON: () => new Date(0) }),
      /^value\.x is a Date/,
    ],
  ])('checks the result of toJSON: it may return %s', (_, x, message) => {
    expect(rejection(codec, { x }).message).toMatch(message);
  });

  it('ignores a polyfilled BigInt.prototype.toJSON', () => {
    const prototype = BigInt.prototype as { toJSON?: () => string };
    prototype.toJSON = () => 'seven';
    try {
      expect(rejection(codec, { n: 7n }).message).toMatch(/^value\.n is a BigInt/);
    } finally {
      delete prototype.toJSON;
    }
  });

  it('does not modify what it writes', () => {
    const value = Object.freeze({
      list: Object.freeze([Object.freeze({ price: new Decimal('7') })]),
    });
    expect(kept<unknown>(codec, value)).toStrictEqual({ list: [{ price: '7' }] });
    expect(value.list[0]!.price).toBeInstanceOf(Decimal);
  });

  it.each([
    ['no JSON', `{"a":"${SECRET}"`],
    ['cut off', `"${SECRET}`],
    ['empty', ''],
  ])('rejects stored data that is %s, without quoting it', (_, text) => {
    const decode = () => codec.decode(Buffer.from(text));
    expect(decode).toThrow('The stored value is not valid JSON.');
    expect(decode).not.toThrow(SECRET);
  });

  describe("with dates: 'text'", () => {
    const withDates = jsonCodec({ dates: 'text' });

    it('writes Dates as ISO strings at any depth', () => {
      class Stamp extends Date {
        override toJSON(): string {
          return 'never asked';
        }
      }
      const at = '1970-01-01T00:00:00.007Z';
      const value = {
        at: new Date(7),
        list: [new Stamp(7), { toJSON: () => new Date(7) }],
        other: runInNewContext('new Date(7)') as unknown,
      };
      expect(kept<unknown>(withDates, value)).toStrictEqual({ at, list: [at, at], other: at });
      expect(kept<unknown>(withDates, new Date(7))).toBe(at);
    });

    it('rejects an invalid Date, for which JSON has null', () => {
      const { message } = rejection(withDates, { at: new Date(NaN) });
      expect(message).toMatch(/^value\.at is an invalid Date/);
    });

    it('is compatible with the default in both directions', () => {
      expect(codec.name).toBe(withDates.name);
      expect(codec.decode(withDates.encode([new Date(7)]))).toEqual(['1970-01-01T00:00:00.007Z']);
    });
  });

  it.each<[unknown, string]>([
    [{ dates: 'iso' }, 'jsonCodec(): The option "dates" must be "refuse", "text"'],
    [{ dates: true }, '"dates"'],
    [{ date: 'text' }, '"date"'],
    [null, 'jsonCodec()'],
  ])('rejects invalid options: %j', (options, named) => {
    const make = () => jsonCodec(options as JsonCodecOptions);
    expect(make).toThrow(expect.objectContaining({ code: 'idempotency_options_invalid' }));
    expect(make).toThrow(named);
  });
});
