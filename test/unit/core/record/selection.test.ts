import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  canonicalJson,
  fingerprint,
  newOwnerToken,
  nodeClock,
  OwnerTokens,
  selectMembers,
} from '../../../support/internals/core.js';

const order = {
  id: 1,
  customer: { id: 'c1', name: 'Ann', address: { city: 'Ulm', street: 'A' } },
  items: [
    { sku: 'a', quantity: 1, note: 'x' },
    { sku: 'b', quantity: 2 },
  ],
  tags: ['new', 'gift'],
  sentAt: '2026-11-01',
};

/** The members that count: the canonical text, parsed again. */
function selected(body: unknown, include: string[] | undefined, exclude: string[] = []): unknown {
  const text = canonicalJson(selectMembers(body, include, exclude));
  return text === '' ? undefined : JSON.parse(text);
}

describe('the members that count', () => {
  it('are all by default', () => {
    expect(selectMembers(order, undefined, [])).toBe(order);
  });

  it('are those under include', () => {
    expect(selected(order, ['id', 'customer.id'])).toEqual({ id: 1, customer: { id: 'c1' } });
    expect(selected(order, ['customer.address'])).toEqual({
      customer: { address: { city: 'Ulm', street: 'A' } },
    });
    expect(selected(order, ['tags'])).toEqual({ tags: ['new', 'gift'] });
  });

  it('are all but those under exclude', () => {
    const { sentAt, ...rest } = order;
    expect(selected(order, undefined, ['sentAt'])).toEqual(rest);
    expect(selected(order, undefined, ['customer.address.street', 'customer.name'])).toMatchObject({
      customer: { id: 'c1', address: { city: 'Ulm' } },
    });
    expect(sentAt).toBe(order.sentAt);
  });

  it('are those under include, less those under exclude', () => {
    expect(selected(order, ['customer'], ['customer.address', 'id'])).toEqual({
      customer: { id: 'c1', name: 'Ann' },
    });
  });

  it('are the more general of two paths', () => {
    expect(selected(order, ['customer', 'customer.id'])).toEqual({ customer: order.customer });
    expect(selected(order, undefined, ['items', 'items.sku'])).not.toHaveProperty('items');
  });

  it('are found in every item of an array', () => {
    expect(selected(order, ['items.sku'])).toEqual({ items: [{ sku: 'a' }, { sku: 'b' }] });
    expect(selected(order, undefined, ['items.note', 'items.quantity'])).toMatchObject({
      items: [{ sku: 'a' }, { sku: 'b' }],
    });
    expect(selected([order, order], ['id'])).toEqual([{ id: 1 }, { id: 1 }]);
    expect(selected([[{ a: 1, b: 2 }]], ['a'])).toEqual([[{ a: 1 }]]);
  });

  it('keep the number of items, even where nothing in them counts', () => {
    const one = selected({ items: [{ a: 1 }] }, ['items.sku']);
    const two = selected({ items: [{ a: 1 }, { a: 2 }] }, ['items.sku']);
    expect(one).not.toEqual(two);
  });

  it('distinguish a member that is null from one that is absent', () => {
    expect(selected({ a: null }, ['a'])).toEqual({ a: null });
    expect(selected({}, ['a'])).toEqual({});
    expect(selected({ a: null, b: 1 }, undefined, ['b'])).toEqual({ a: null });
  });

  it('distinguish an object in which nothing counts from one that is absent', () => {
    expect(selected({ a: { b: 1 } }, ['a.c'])).toEqual({ a: {} });
    expect(selected({}, ['a.c'])).toEqual({});
  });

  it('exclude inherited members', () => {
    expect(selected({}, ['constructor', 'toString.name', '__proto__'])).toEqual({});
  });

  it('may be called __proto__', () => {
    const body: unknown = JSON.parse('{"__proto__":{"a":1,"b":2},"c":3}');
    const picked = selectMembers(body, ['__proto__.a'], []);
    expect(canonicalJson(picked)).toBe('{"__proto__":{"a":1}}');
    expect(canonicalJson(selectMembers(body, undefined, ['__proto__.a']))).toBe(
      '{"__proto__":{"b":2},"c":3}',
    );
  });

  it('of a body that is not an object are the body itself, unless some are chosen', () => {
    for (const body of ['text', 1, true, null]) {
      expect(selected(body, undefined, ['a'])).toEqual(body);
      expect(selected(body, ['a'])).toBeUndefined();
    }
    expect(selected(undefined, undefined, ['a'])).toBeUndefined();
  });

  it('do not include parts of a value without members, which counts as a whole', () => {
    class Money {
      readonly #cents: number;
      constructor(cents: number) {
        this.#cents = cents;
      }
      toJSON() {
        return { cents: this.#cents };
      }
    }
    class Sealed {
      readonly #cents = 1;
      get cents() {
        return this.#cents;
      }
    }
    const sealed = new Sealed();
    for (const whole of [
      sealed,
      new Date(0),
      Buffer.from('a'),
      new Map([['b', 1]]),
      new Money(1),
    ]) {
      for (const body of [
        { a: whole, id: 1 },
        { a: [whole], id: 1 },
      ]) {
        expect(selectMembers(body, ['id', 'a.b'], [])).toEqual(body);
        expect(selectMembers(body, undefined, ['a.b'])).toEqual(body);
      }
      expect(selectMembers({ a: whole, id: 1 }, undefined, ['a'])).toEqual({ id: 1 });
      expect(selectMembers(whole, ['b'], ['b'])).toBe(whole);
    }
  });

  it('do not change the body', () => {
    const text = JSON.stringify(order);
    selectMembers(order, ['customer.id', 'items.sku'], ['items.note']);
    expect(JSON.stringify(order)).toBe(text);
  });

  it('make up the whole when include and exclude have the same paths', () => {
    const name = fc.constantFrom('a', 'b', 'c');
    const body = fc.dictionary(name, fc.dictionary(name, fc.integer()));
    const path = fc
      .tuple(name, fc.option(name, { nil: undefined }))
      .map((parts) => parts.filter((part) => part !== undefined).join('.'));
    fc.assert(
      fc.property(body, fc.array(path, { minLength: 1, maxLength: 4 }), (value, paths) => {
        const inside = flat(selected(value, paths));
        const outside = flat(selected(value, undefined, paths));
        expect([...inside, ...outside].sort()).toEqual(flat(value).sort());
      }),
    );
  });
});

/** Every leaf with its path. */
function flat(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return [`${path}=${String(value)}`];
  return Object.entries(value).flatMap(([name, member]) => flat(member, `${path}.${name}`));
}

/** A JSON value outside JavaScript: members are a list, since their order varies. */
type Json =
  | { readonly kind: 'literal'; readonly value: null | boolean }
  | { readonly kind: 'number'; readonly value: number }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'array'; readonly items: readonly Json[] }
  | { readonly kind: 'object'; readonly members: readonly (readonly [string, Json])[] };

const name = fc.oneof(
  fc.constantFrom('', 'a', 'b', 'aa', '__proto__', 'toJSON', 'constructor', '10', '9', 'é'),
  fc.string({ unit: 'binary', maxLength: 4 }),
  fc.constantFrom('\ud800', '\udfff', '\u2028', 'é'),
);
const number = fc.oneof(
  fc.integer({ min: -3, max: 3 }),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(1e21, 1e-7, 5e-324, Number.MAX_VALUE, 0.1 + 0.2, 100, -0),
);

const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, depthIdentifier: 'spelled-json' },
    fc.constantFrom(null, true, false).map((value) => ({ kind: 'literal', value }) as const),
    number.map((value) => ({ kind: 'number', value }) as const),
    name.map((value) => ({ kind: 'string', value }) as const),
    fc.array(tie('json'), { maxLength: 4 }).map((items) => ({ kind: 'array', items }) as const),
    fc
      .uniqueArray(fc.tuple(name, tie('json')), { maxLength: 4, selector: ([member]) => member })
      .map((members) => ({ kind: 'object', members }) as const),
  ),
}));

/** Chooses one of `count` ways to write the next token. */
type Choose = (count: number) => number;

/** One of the many texts of a value. */
function spell(value: Json, choose: Choose): string {
  const space = () => ['', '', ' ', '\n\t', '\r '][choose(5)]!;
  switch (value.kind) {
    case 'literal':
      return String(value.value);
    case 'number':
      return spellNumber(value.value, choose);
    case 'string':
      return spellString(value.value, choose);
    case 'array':
      return `[${value.items.map((item) => space() + spell(item, choose) + space()).join()}]`;
    case 'object': {
      const members = value.members.map(
        ([member, below]) =>
          `${space()}${spellString(member, choose)}${space()}:${space()}${spell(below, choose)}`,
      );
      const start = choose(members.length + 1);
      const turned = [...members.slice(start), ...members.slice(0, start)];
      return `{${(choose(2) === 0 ? turned : turned.reverse()).join()}${space()}}`;
    }
  }
}

/** All of them are read as the same binary64. */
function spellNumber(value: number, choose: Choose): string {
  const plain = JSON.stringify(value);
  const spellings = [plain, value.toExponential(), value.toExponential().toUpperCase()];
  if (/^-?[1-9]\d*$/.test(plain)) spellings.push(`${plain}.0`, `${plain}e0`, `${plain}0E-1`);
  if (value === 0) spellings.push('0', '-0', '0e9', '-0.0');
  return spellings[choose(spellings.length)]!;
}

function spellString(value: string, choose: Choose): string {
  const units = Array.from({ length: value.length }, (_, index) => value.charCodeAt(index));
  const escaped = units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`);
  const mixed = units.map((unit, index) =>
    unit > 0x1f && unit < 0x7f && !'"\\'.includes(value[index]!) ? value[index] : escaped[index],
  );
  return [JSON.stringify(value), `"${escaped.join('')}"`, `"${mixed.join('')}"`][choose(3)]!;
}

/** What two equal values must share, determined without the code under test. */
function identity(value: Json): string {
  switch (value.kind) {
    case 'literal':
    case 'string':
      return JSON.stringify(value.value);
    case 'number':
      return `number ${value.value === 0 ? 0 : value.value}`;
    case 'array':
      return `[${value.items.map(identity).join()}]`;
    case 'object': {
      const members = value.members.map(
        ([member, below]) => `${JSON.stringify(member)}:${identity(below)}`,
      );
      return `{${members.sort().join()}}`;
    }
  }
}

/** The same value, changed in one place. */
function changed(value: Json, choose: Choose): Json {
  if (value.kind === 'array' && value.items.length > 0 && choose(4) > 0) {
    const at = choose(value.items.length);
    const how = choose(3);
    const items = value.items.flatMap((item, index) => {
      if (index !== at) return [item];
      return how === 0 ? [] : how === 1 ? [item, item] : [changed(item, choose)];
    });
    return { kind: 'array', items };
  }
  if (value.kind === 'object' && value.members.length > 0 && choose(4) > 0) {
    const at = choose(value.members.length);
    const how = choose(2);
    const members = value.members.flatMap(([member, below], index) => {
      if (index !== at) return [[member, below] as const];
      return how === 0 ? [] : [[member, changed(below, choose)] as const];
    });
    return { kind: 'object', members };
  }
  const others: readonly Json[] = [
    { kind: 'literal', value: null },
    { kind: 'string', value: value.kind === 'number' ? String(value.value) : 'null' },
    { kind: 'number', value: value.kind === 'number' ? nextAfter(value.value) : 1 },
    { kind: 'array', items: [value] },
    { kind: 'object', members: [['', value]] },
    { kind: 'array', items: [] },
    { kind: 'object', members: [] },
  ];
  return others[choose(others.length)]!;
}

/** The adjacent number, one bit away. */
function nextAfter(value: number): number {
  const bits = new BigInt64Array(new Float64Array([value]).buffer);
  bits[0]! += Math.abs(value) === Number.MAX_VALUE ? -1n : 1n;
  return new Float64Array(bits.buffer)[0]!;
}

const choices = fc.infiniteStream(fc.nat({ max: 2 ** 20 }));

function chooser(stream: Iterator<number>): Choose {
  return (count) => Number(stream.next().value) % count;
}

function of(text: string): string {
  return fingerprint(['operation', canonicalJson(JSON.parse(text))]);
}

describe('the fingerprint of a JSON value', () => {
  it('is the same however the value is written', () => {
    fc.assert(
      fc.property(json, choices, (value, stream) => {
        const choose = chooser(stream);
        expect(of(spell(value, choose))).toBe(of(spell(value, choose)));
      }),
      { numRuns: 3_000 },
    );
  });

  it('changes exactly when the value does, by the smallest change', () => {
    let equal = 0;
    let different = 0;
    fc.assert(
      fc.property(json, choices, (value, stream) => {
        const choose = chooser(stream);
        const other = changed(value, choose);
        const isSame = identity(value) === identity(other);
        if (isSame) equal += 1;
        else different += 1;
        expect(of(spell(value, choose)) === of(spell(other, choose))).toBe(isSame);
      }),
      { numRuns: 3_000 },
    );
    // Few changes lead back to the same value; without one, only one direction would have been tested.
    expect(different).toBeGreaterThan(1_000);
    expect(equal).toBeGreaterThan(10);
  });

  it('of 0 equals that of -0', () => {
    expect(of('[-0, -0.0, 0e1]')).toBe(of('[0,0,0]'));
  });
});

const TOKENS = 100_000;

const ofEngine = new OwnerTokens(nodeClock);

describe.each([
  ['of an engine', () => ofEngine.next()],
  ['of its own', () => newOwnerToken(nodeClock)],
])('an owner token %s', (_, next) => {
  const tokens = Array.from({ length: TOKENS }, next);

  it('is 128 bits in base64url', () => {
    expect(tokens.filter((token) => !/^[A-Za-z0-9_-]{22}$/.test(token))).toEqual([]);
    expect(Buffer.from(tokens[0]!, 'base64url')).toHaveLength(16);
  });

  it('is unique to one attempt', () => {
    expect(new Set(tokens).size).toBe(TOKENS);
  });

  it('has every bit random', () => {
    const ones = new Array<number>(128).fill(0);
    for (const token of tokens) {
      Buffer.from(token, 'base64url').forEach((byte, index) => {
        for (let bit = 0; bit < 8; bit += 1) ones[index * 8 + bit]! += (byte >> bit) & 1;
      });
    }
    // Ten standard deviations: a fair bit is outside of it once in 10^23 runs.
    const deviation = 10 * Math.sqrt(TOKENS / 4);
    for (const count of ones) expect(Math.abs(count - TOKENS / 2)).toBeLessThan(deviation);
  });
});
