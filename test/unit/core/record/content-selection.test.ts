import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { canonicalJson, selectMembers } from '../../../support/internals/core.js';

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
