import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Packr, unpack } from 'msgpackr';
import { jsonCodec, ValueNotStorableError } from 'nestjs-idempotency';
import { messagePackCodec } from 'nestjs-idempotency/messagepack';
import type { JsonCodecOptions } from '../../support/internals/codecs.js';
import { kept, nested, rejection } from './support.js';

const SECRET = 's3cret';

describe('jsonCodec()', () => {
  const codec = jsonCodec();

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
    [{ dates: 'iso' }, 'jsonCodec(): The option "dates" must be "refuse" or "text"'],
    [{ dates: true }, '"dates"'],
    [{ date: 'text' }, '"date"'],
    [null, 'jsonCodec()'],
  ])('rejects invalid options: %j', (options, named) => {
    const make = () => jsonCodec(options as JsonCodecOptions);
    expect(make).toThrow(expect.objectContaining({ code: 'idempotency_options_invalid' }));
    expect(make).toThrow(named);
  });
});

describe('messagePackCodec()', () => {
  const codec = messagePackCodec();
  const members = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`m${String(index)}`, index]));

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

describe('the bytes that are stored stay the same for', () => {
  class Money {
    constructor(
      readonly amount: string,
      readonly currency: string,
    ) {}
  }

  /** Without a text: JSON cannot represent it. */
  type Case = readonly [what: string, value: unknown, text: string | undefined, hex: string];

  // Stored outcomes outlive the version that wrote them.
  const cases: readonly Case[] = [
    [
      'an order',
      { id: 7, paid: true, note: null, lines: [{ sku: 'bü', price: 12.5 }], none: undefined },
      '{"id":7,"paid":true,"note":null,"lines":[{"sku":"bü","price":12.5}]}',
      '85a2696407a470616964c3a46e6f7465c0a56c696e65739182a3736b75a362c3bca57072696365cb4029000000000000a46e6f6e65d40000',
    ],
    [
      'numbers',
      [0, -0, 127, 128, -33, 65_536, 2 ** 53, 0.1, 1e300],
      '[0,0,127,128,-33,65536,9007199254740992,0.1,1e+300]',
      '990092c1a47a65726f7fcc80d0dfce00010000cb4340000000000000cb3fb999999999999acb7e37e43c8800759c',
    ],
    [
      'strings',
      ['', 'a', 'ü€😀', 'x'.repeat(32)],
      '["","a","ü€😀","xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]',
      '94a0a161a9c3bce282acf09f9880d9207878787878787878787878787878787878787878787878787878787878787878',
    ],
    [
      'text that UTF-8 would change',
      ['\ufeffa', '\ud800', { '\udfff': 1, b: -0 }],
      '["\ufeffa","\\ud800",{"\\udfff":1,"b":0}]',
      '9393c1a474657874c404fffe610093c1a474657874c40200d896c1a66f626a65637493c1a474657874c402ffdf01a16292c1a47a65726f',
    ],
    [
      'a member __proto__',
      JSON.parse('{"__proto__":{"a":1},"b":[]}'),
      '{"__proto__":{"a":1},"b":[]}',
      '96c1a66f626a656374a95f5f70726f746f5f5f81a16101a16290',
    ],
    [
      'Dates',
      [new Date(7), new Date(1_700_000_000_000), new Date(-1)],
      '["1970-01-01T00:00:00.007Z","2023-11-14T22:13:20.000Z","1969-12-31T23:59:59.999Z"]',
      '93d7ff01ab3f0000000000d6ff6553f100c70cff3b8b87c0ffffffffffffffff',
    ],
    [
      'instances',
      { price: new Money('7.10', 'EUR'), url: new URL('http://a/b') },
      '{"price":{"amount":"7.10","currency":"EUR"},"url":"http://a/b"}',
      '82a5707269636582a6616d6f756e74a4372e3130a863757272656e6379a3455552a375726c93c1a375726caa687474703a2f2f612f62',
    ],
    ['what has a toJSON', [{ toJSON: (name: string) => [name] }], '[["0"]]', '9191a130'],
    [
      'what JSON has no number for',
      [NaN, Infinity, undefined],
      undefined,
      '93cb7ff8000000000000cb7ff0000000000000d40000',
    ],
    [
      'BigInts',
      [7n, -(2n ** 63n), 2n ** 70n],
      undefined,
      '93d30000000000000007d38000000000000000d84200000000000000400000000000000000',
    ],
    [
      'Maps and Sets',
      new Map<unknown, unknown>([
        ['a', [-0]],
        [{ b: 1 }, new Set([1, 'c'])],
      ]),
      undefined,
      '96c1a36d6170a1619192c1a47a65726f81a1620194c1a373657401a163',
    ],
    ['bytes', [Buffer.from('paid'), Uint8Array.of(1, 2)], undefined, '92c40470616964c70374010102'],
    [
      'what looks like tags',
      [
        [null, 'set'],
        ['map', 1],
      ],
      '[[null,"set"],["map",1]]',
      '9292c0a373657492a36d617001',
    ],
  ];

  it.each(cases)('%s', (_, value, text, hex) => {
    expect(Buffer.from(messagePackCodec().encode(value)).toString('hex')).toBe(hex);
    const json = () => Buffer.from(jsonCodec({ dates: 'text' }).encode(value)).toString();
    if (text === undefined) expect(json).toThrow(ValueNotStorableError);
    else expect(json()).toBe(text);
  });
});

describe('temporal', () => {
  const TYPES = [
    ...['Duration', 'Instant', 'PlainDate', 'PlainDateTime', 'PlainMonthDay', 'PlainTime'],
    ...['PlainYearMonth', 'ZonedDateTime'],
  ];

  /** As a polyfill has it: a tag, `toJSON`, `toString` and `from`. */
  function standIn(name: string) {
    return class {
      readonly parts: readonly unknown[];
      constructor(...parts: readonly unknown[]) {
        this.parts = parts;
      }

      static from(text: string) {
        return new this(text);
      }

      get [Symbol.toStringTag]() {
        return `Temporal.${name}`;
      }

      toString() {
        return String(this.parts[0]);
      }

      toJSON() {
        return this.toString();
      }
    };
  }

  type TemporalGlobal = Record<string, new (...parts: unknown[]) => object>;
  const given = (globalThis as { Temporal?: unknown }).Temporal;
  const setGlobal = (value: unknown) => {
    Object.defineProperty(globalThis, 'Temporal', { value, configurable: true, writable: true });
  };
  afterEach(() => {
    setGlobal(given);
  });

  describe.each(TYPES)('a Temporal.%s', (name) => {
    const Type = standIn(name);
    const value = { at: [new Type('text')] };

    it('is refused by JSON, and a text where that is chosen', () => {
      expect(rejection(jsonCodec(), value).message).toMatch(
        `value.at[0] is a Temporal.${name}, which JSON would lose.`,
      );
      expect(kept(jsonCodec({ dates: 'text' }), value)).toEqual({ at: ['text'] });
    });

    it('is refused by MessagePack where it is not of the global Temporal', () => {
      for (const other of [undefined, {}, { [name]: standIn(name) }]) {
        setGlobal(other);
        expect(rejection(messagePackCodec(), value).message).toMatch(
          `value.at[0] is a Temporal.${name} that is not of the global Temporal`,
        );
      }
    });

    it('is an error, and no other value, where the process that reads it has none', () => {
      setGlobal({ [name]: Type });
      const bytes = messagePackCodec().encode(value);
      setGlobal(undefined);
      expect(() => messagePackCodec().decode(bytes)).toThrow(/which this process does not have/);
    });
  });

  describe('MessagePack keeps', () => {
    it.each(['Instant', 'PlainDate'])('a Temporal.%s of the global Temporal', (name) => {
      const Type = standIn(name);
      setGlobal({ [name]: Type });
      const read = kept(messagePackCodec(), new Map([['at', new Type('2026-11-29')]])).get('at');
      expect(read).toBeInstanceOf(Type);
      expect(read).toMatchObject({ parts: ['2026-11-29'] });
    });

    it('each field of a duration, and the very instant, zone and calendar of a zoned time', () => {
      const [Duration, Zoned] = [standIn('Duration'), standIn('ZonedDateTime')];
      setGlobal({ Duration, ZonedDateTime: Zoned });
      const duration = Object.assign(new Duration(), {
        ...{ years: 0, months: 0, weeks: 0, days: 0, hours: 0, minutes: 90, seconds: 61 },
        ...{ milliseconds: 1_500, microseconds: 0, nanoseconds: 1 },
      });
      const zoned = Object.assign(new Zoned(), {
        ...{ epochNanoseconds: 8_640_000_000_000_000_000_000n, timeZoneId: 'Europe/Berlin' },
        calendarId: 'hebrew',
      });
      const [readDuration, readZoned] = kept(messagePackCodec(), [duration, zoned]);
      expect(readDuration).toMatchObject({ parts: [0, 0, 0, 0, 0, 90, 61, 1_500, 0, 1] });
      expect(readZoned).toMatchObject({
        parts: [8_640_000_000_000_000_000_000n, 'Europe/Berlin', 'hebrew'],
      });
    });

    it('a URL, which JSON refuses unless it may be a text', () => {
      const value = { to: new URL('https://example.com/a?b=ü') };
      const read = kept(messagePackCodec(), value);
      expect(read.to).toBeInstanceOf(URL);
      expect(read.to.href).toBe(value.to.href);
      expect(rejection(jsonCodec(), value).message).toMatch(
        'value.to is a URL, which JSON would lose',
      );
      expect(kept(jsonCodec({ dates: 'text' }), value)).toEqual({ to: value.to.href });
    });

    const real = given as TemporalGlobal | undefined;
    const ofNode = real === undefined ? it.skip : it;
    ofNode('the values of Node’s own Temporal', () => {
      const { from } = { from: (name: string, text: string) => (real![name] as any).from(text) };
      const values = [
        from('Duration', 'PT90M61.5S'),
        from('Instant', '2026-11-29T00:00:00.000000001Z'),
        from('PlainDate', '2026-11-29[u-ca=hebrew]'),
        from('PlainDateTime', '2026-11-29T10:00:00.5'),
        from('PlainMonthDay', '11-29'),
        from('PlainTime', '10:00'),
        from('PlainYearMonth', '2026-11'),
        from('ZonedDateTime', '2026-10-25T02:30:00+01:00[Europe/Berlin]'),
      ];
      const read = kept(messagePackCodec(), values);
      expect(read.map(String)).toEqual(values.map(String));
      expect(read.map((value) => value.constructor)).toEqual(
        values.map((value) => value.constructor),
      );
    });
  });
});
