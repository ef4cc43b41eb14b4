import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { SymbolSlot } from '../../../support/internals/core.js';

describe('A symbol slot', () => {
  it('keeps a value for each object until it is removed', () => {
    const slot = new SymbolSlot<string>('test');
    const [one, other] = [{}, {}];
    slot.set(one, 'first');
    slot.set(other, 'second');
    expect([slot.get(one), slot.get(other)]).toEqual(['first', 'second']);
    slot.set(one, 'third');
    slot.set(other, undefined);
    expect([slot.get(one), slot.get(other)]).toEqual(['third', undefined]);
    expect(slot.get({})).toBeUndefined();
  });

  it('keeps its value out of copies, loops, JSON and logs', () => {
    const slot = new SymbolSlot<string>('test');
    const object = { shown: 1 };
    slot.set(object, 'kept');
    for (const copy of [{ ...object }, Object.assign({}, object), structuredClone(object)]) {
      expect(Reflect.ownKeys(copy)).toEqual(['shown']);
      expect(slot.get(copy)).toBeUndefined();
    }
    expect(inspect(object)).toBe('{ shown: 1 }');
    expect(JSON.stringify(object)).toBe('{"shown":1}');
    expect(slot.get(object)).toBe('kept');
  });

  it('gives a copy with all properties no value of the original', () => {
    const slot = new SymbolSlot<string>('test');
    const object = {};
    slot.set(object, 'kept');
    const copy = Object.defineProperties({}, Object.getOwnPropertyDescriptors(object));
    expect(slot.get(copy)).toBeUndefined();
    slot.set(copy, 'of the copy');
    expect([slot.get(object), slot.get(copy)]).toEqual(['kept', 'of the copy']);
  });

  type Relation = readonly [string, (object: object) => object];
  const RELATIONS: readonly Relation[] = [
    ['its proxy', (object) => new Proxy(object, {})],
    ['an object that inherits from it', (object) => Object.create(object) as object],
  ];
  it.each(RELATIONS)('distinguishes an object from %s, in either order', (_, relativeOf) => {
    for (const isReversed of [false, true]) {
      const slot = new SymbolSlot<string>('test');
      const object = {};
      const pair = [object, relativeOf(object)];
      if (isReversed) pair.reverse();
      const values = () => pair.map((one) => slot.get(one));
      slot.set(pair[0]!, 'of the first');
      expect(values()).toEqual(['of the first', undefined]);
      slot.set(pair[1]!, 'of the second');
      expect(values()).toEqual(['of the first', 'of the second']);
      slot.set(pair[1]!, undefined);
      expect(values()).toEqual(['of the first', undefined]);
      slot.set(pair[0]!, undefined);
      expect(values()).toEqual([undefined, undefined]);
    }
  });

  it('supports functions and objects that accept no property', () => {
    const slot = new SymbolSlot<string>('test');
    const later = { shown: 1 };
    slot.set(later, 'kept');
    const closed = new Proxy({}, { defineProperty: () => false });
    const objects = [
      Object.freeze({}),
      Object.seal({}),
      () => undefined,
      Object.freeze(later),
      closed,
    ];
    for (const object of objects) slot.set(object, 'kept');
    expect(objects.map((object) => slot.get(object))).toEqual(objects.map(() => 'kept'));
    for (const object of objects) slot.set(object, undefined);
    expect(objects.map((object) => slot.get(object))).toEqual(objects.map(() => undefined));
  });

  it('is separate from other slots, also of the same name', () => {
    const [one, other] = [new SymbolSlot<string>('test'), new SymbolSlot<string>('test')];
    const object = {};
    one.set(object, 'of the one');
    expect(other.get(object)).toBeUndefined();
    other.set(object, 'of the other');
    expect([one.get(object), other.get(object)]).toEqual(['of the one', 'of the other']);
  });
});
