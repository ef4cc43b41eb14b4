import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ContentNotComparableError } from 'nestjs-idempotency';
import { configure } from 'safe-stable-stringify';
import {
  canonicalJson,
  checkDepth,
  containersIn,
  MAX_CONTENT_DEPTH,
} from '../../../support/internals/core.js';
import { ofMembers, reordered } from '../../../support/jest/json-members.js';
import { dose, isTestAll } from '../../../support/jest/test-all.js';

const NAMES = ['a', 'b', 'aa', '', '__proto__', 'toJSON', 'constructor', '10', '9', '\ud800', 'é'];
/** Values that often collide: few leaves, few names. */
const { value: json } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'json' },
    fc.constantFrom(null, true, false, 0, 1, 1e21, -1.5, '', '1', 'null', '[Object]', '[Array]'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc
      .array(fc.tuple(fc.constantFrom(...NAMES), tie('value')), { maxLength: 3 })
      .map((members) => ofMembers(members)),
  ),
}));

class Dto {
  amount = 1;
}
class Listed extends Array<unknown> {
  toJSON() {
    return [...this].reverse();
  }
}
/** What JSON.parse makes of no text. */
const UNUSUAL = [
  ...[undefined, NaN, -Infinity, 1n, Symbol('s'), () => 1, new Date(0), new Date(NaN)],
  ...[Object('a'), new Uint8Array(12), Object.assign([], { 2: 'a' }), new URL('https://a.example')],
];

const nested = (depth: number, innermost: string) =>
  JSON.parse('['.repeat(depth) + innermost + ']'.repeat(depth)) as unknown;
const nestedObjects = (depth: number, innermost: string) =>
  JSON.parse('{"a":'.repeat(depth) + innermost + '}'.repeat(depth)) as unknown;

describe('canonical JSON', () => {
  it('is equal exactly for equal values', () => {
    fc.assert(
      fc.property(json, json, (one, other) => {
        expect(canonicalJson(one) === canonicalJson(other)).toBe(isDeepStrictEqual(one, other));
      }),
      { numRuns: dose(3_000) },
    );
  });

  it('does not depend on the order of members, and is JSON of the same value', () => {
    fc.assert(
      fc.property(json, (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(reordered(value))).toBe(text);
        expect(isDeepStrictEqual(JSON.parse(text), value)).toBe(true);
      }),
      { numRuns: dose(2_000) },
    );
  });

  it('does not depend on spacing, nor on how a number or a character is spelled', () => {
    const spellings = ['{"n":100,"s":"A"}', '{ "s" : "\\u0041",\n"n":1e2 }', '{"n":100.0,"s":"A"}'];
    const texts = spellings.map((spelling) => canonicalJson(JSON.parse(spelling)));
    expect(new Set(texts).size).toBe(1);
  });

  it('keeps a member called __proto__', () => {
    const text = canonicalJson(JSON.parse('{"__proto__":{"admin":true}}'));
    expect(text).toBe('{"__proto__":{"admin":true}}');
  });

  it('sorts the members of a wide object too', () => {
    const names = Array.from({ length: 5_000 }, (_, index) => `m${index}`);
    const object = (order: string[]) => Object.fromEntries(order.map((name) => [name, name]));
    const text = canonicalJson(object(names));
    expect(canonicalJson(object([...names].reverse()))).toBe(text);
    expect(Object.keys(JSON.parse(text) as object)).toEqual([...names].sort());
  });

  it('of undefined is undefined', () => {
    expect(canonicalJson(undefined)).toBe('');
  });

  const literals: [string, unknown][] = [
    ['[Object]', { a: '[Object]' }],
    ['[Array]', ['[Array]']],
    ['[Circular]', ['[Circular]', '[Circular: 0]']],
  ];
  it.each(literals)('treats the string "%s" as a string', (_, value) => {
    expect(JSON.parse(canonicalJson(value))).toEqual(value);
  });

  it('counts the depth correctly beside a string that looks like its marker', () => {
    const judged = (value: unknown) => {
      try {
        return JSON.stringify(value) === canonicalJson(value);
      } catch {
        return 'refused';
      }
    };
    for (const leaf of ['[]', '{}', '1', '[1]', '{"a":1}']) {
      for (const depth of [997, 998, 999, 1_000]) {
        const value = nested(depth, leaf);
        expect(judged(['[Array]', value])).toBe(judged(['a string', value]));
        expect(judged([value, '[Object]'])).toBe(judged([value, 'a string']));
      }
    }
  });

  it('finds excessive depth beside a string that looks like its marker', () => {
    const value = ['[Array]', '[Object]', nested(MAX_CONTENT_DEPTH, '1')];
    expect(() => canonicalJson(value)).toThrow(ContentNotComparableError);
  });

  const shapes = [
    ['arrays', nested],
    ['objects', nestedObjects],
  ] as const;
  describe.each(shapes)('of %s in each other', (_, nest) => {
    it.each(['1', '"[Array]"', '"[Object]"', '[]', '{}'])(
      'reaches 1,000 levels, with %s inside',
      (leaf) => {
        const depth = leaf.startsWith('[') || leaf.startsWith('{') ? 999 : 1_000;
        const value = nest(depth, leaf);
        expect(canonicalJson(value)).toBe(JSON.stringify(value));
      },
    );

    it.each(['1', 'null', '"[Array]"'])('rejects 1,001, with %s inside', (leaf) => {
      expect(() => canonicalJson(nest(1_001, leaf))).toThrow(ContentNotComparableError);
    });

    it('rejects 100,000 without a stack overflow', () => {
      let value = nest(1, '1');
      for (let depth = 1; depth < 100_000; depth += 1) {
        value = Array.isArray(value) ? [value] : { a: value };
      }
      expect(() => canonicalJson(value)).toThrow(ContentNotComparableError);
    });
  });

  const inexpressible: [string, unknown][] = [
    ['1e400', JSON.parse('{"n":1e400}')],
    ['-1e400', JSON.parse('[-1e400]')],
    ['NaN', [NaN]],
    ['a BigInt', { n: 1n }],
    ['a function', { f: () => 1 }],
    ['a symbol', [Symbol('s')]],
  ];
  it.each(inexpressible)('rejects %s', (_, value) => {
    expect(() => canonicalJson(value)).toThrow(ContentNotComparableError);
  });

  it('is written below the shallow levels as the library writes it', () => {
    const library = configure({ strict: true, maximumDepth: MAX_CONTENT_DEPTH });
    const inside = (value: unknown, depth: number) =>
      Array.from({ length: depth }).reduce<unknown>(
        (inner, _, at) =>
          at % 2 === 0 ? [inner, undefined] : { b: inner, a: undefined, '10': at },
        value,
      );
    const dated = new Date(0);
    const holes = Object.assign([], { 2: 'a' });
    const octets = new Uint8Array(12);
    fc.assert(
      fc.property(json, fc.integer({ min: 28, max: 100 }), (value, depth) => {
        const deep = inside(
          [value, dated, holes, octets, { toJSON: (name: string) => [name] }],
          depth,
        );
        expect(canonicalJson(deep)).toBe(library(deep));
      }),
      { numRuns: 500 },
    );
  });

  it('of any value is the text of safe-stable-stringify, or the same refusal', () => {
    const library = configure({ strict: true, maximumDepth: MAX_CONTENT_DEPTH });
    const texts = fc.string({ unit: 'binary', maxLength: 6 });
    const { value: any } = fc.letrec<{ value: unknown }>((tie) => {
      const members = fc
        .array(fc.tuple(fc.oneof(fc.constantFrom(...NAMES), texts), tie('value')), { maxLength: 5 })
        .map((of) => Object.fromEntries(of));
      return {
        value: fc.oneof(
          { maxDepth: 4, depthIdentifier: 'any' },
          { weight: 20, arbitrary: fc.oneof(fc.double(), texts, fc.boolean()) },
          { weight: 1, arbitrary: fc.constantFrom(...UNUSUAL) },
          { weight: 15, arbitrary: fc.array(fc.oneof(members, tie('value')), { maxLength: 4 }) },
          { weight: 15, arbitrary: members },
          { weight: 2, arbitrary: members.map((of) => Object.setPrototypeOf(of, null) as object) },
          { weight: 1, arbitrary: members.map((of) => Object.assign(new Dto(), of)) },
          { weight: 1, arbitrary: fc.array(tie('value')).map((of) => Listed.from(of)) },
          { weight: 1, arbitrary: tie('value').map((of) => ({ toJSON: () => of })) },
        ),
      };
    });
    const judged = (write: (value: unknown) => string | undefined, value: unknown) => {
      try {
        return write(value) ?? '';
      } catch {
        return undefined;
      }
    };
    fc.assert(
      fc.property(any, (value) => {
        const expected = judged(library, value);
        const text = judged(canonicalJson, value);
        // What JSON writes as {} whatever it holds is refused by a check of its own.
        if (text !== undefined || expected?.includes('{}') !== true) expect(text).toBe(expected);
      }),
      { numRuns: isTestAll ? 200_000 : 10_000 },
    );
  });

  it.each([Object.prototype, Array.prototype])(
    'is what a toJSON that a library adds to a prototype says (%#)',
    (prototype) => {
      Object.defineProperty(prototype, 'toJSON', {
        configurable: true,
        value(this: object) {
          return Object.isFrozen(this) ? 'frozen' : this;
        },
      });
      try {
        const members = Object.freeze({ a: Object.freeze([1]) });
        const text = configure({ strict: true })(members);
        expect(canonicalJson(members)).toBe(text);
        expect(text).toContain('frozen');
      } finally {
        Reflect.deleteProperty(prototype, 'toJSON');
      }
    },
  );

  it.each<[string, unknown]>([
    ['a circle', Object.assign([], { 0: [] })],
    ['a number that is not finite', [Infinity]],
    ['a BigInt', [1n]],
    ['a function', { f: () => 1 }],
    ['a Map', new Map([['a', 1]])],
  ])('rejects %s at depth, too', (name, value) => {
    const bottom: unknown[] = [value];
    if (name === 'a circle') bottom.push(bottom);
    const deep = Array.from({ length: 100 }).reduce<unknown>((inner) => [inner], bottom);
    expect(() => canonicalJson(deep)).toThrow(ContentNotComparableError);
  });

  it.each<[string, unknown]>([
    ['a Map', new Map([['amount', 1]])],
    ['a Set', new Set([1])],
    ['a Map with a member', Object.assign(new Map(), { a: {} })],
    ['a WeakMap', new WeakMap()],
    ['a promise', Promise.resolve(1)],
    ['an Error', new Error('1')],
    ['a RegExp', /1/],
    ['a boxed number', Object(1)],
    ['URLSearchParams', new URLSearchParams('amount=1')],
    ['an ArrayBuffer', new ArrayBuffer(1)],
    [
      'an instance with private fields',
      new (class {
        readonly #amount = 1;
        amount() {
          return this.#amount;
        }
      })(),
    ],
  ])('rejects %s, which JSON would write as an empty object', (_, value) => {
    expect(() => canonicalJson(value)).toThrow(ContentNotComparableError);
    expect(() => canonicalJson({ items: [value] })).toThrow(ContentNotComparableError);
    expect(() => canonicalJson([{ toJSON: () => value }])).toThrow(ContentNotComparableError);
  });

  it('stops at the maximum depth when toJSON keeps returning objects with a toJSON', () => {
    class Endless {
      toJSON(): unknown {
        return { next: new Endless(), none: {} };
      }
    }
    expect(() => canonicalJson(new Endless())).toThrow(ContentNotComparableError);
    expect(containersIn(new Endless()).length).toBeLessThan(2 * MAX_CONTENT_DEPTH + 3);
  });

  it('accepts empty values', () => {
    const bare = Object.create(null) as object;
    expect(canonicalJson([{}, bare, [], new Uint8Array()])).toBe('[{},{},[],{}]');
    const dated = { at: new Date(0), of: { toJSON: () => ({}) } };
    expect(canonicalJson(dated)).toBe('{"at":"1970-01-01T00:00:00.000Z","of":{}}');
  });

  it('rejects a circle, and accepts an object that occurs twice', () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    expect(() => canonicalJson(circle)).toThrow(ContentNotComparableError);
    const twice = { n: 1 };
    expect(canonicalJson([twice, twice])).toBe('[{"n":1},{"n":1}]');
  });

  it('reports what is wrong without repeating the content', () => {
    const rejected = () => canonicalJson({ card: '4242-4242', n: JSON.parse('1e400') as number });
    expect(rejected).toThrow(/not finite/);
    expect(rejected).not.toThrow(/4242/);
  });
});

it('a circle is rejected as too deep, also one that branches', () => {
  const circle: Record<string, unknown> = {};
  Object.assign(circle, { one: circle, others: [circle, circle] });
  expect(() => checkDepth(circle)).toThrow(ContentNotComparableError);
});
