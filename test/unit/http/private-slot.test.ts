import { describe, expect, it } from '@jest/globals';
import { privateSlot } from '../../support/internals/transports/http.js';

describe('A symbol slot on objects', () => {
  it('keeps a value for each object until it is removed', () => {
    const places = privateSlot<string>();
    const [one, other] = [{}, {}];
    places.set(one, 'first');
    places.set(other, 'second');
    expect([places.get(one), places.get(other)]).toEqual(['first', 'second']);
    places.set(one, 'third');
    places.set(other, undefined);
    expect([places.get(one), places.get(other)]).toEqual(['third', undefined]);
    expect(places.get({})).toBeUndefined();
  });

  it('leaves nothing that other code sees or copies', () => {
    const places = privateSlot<string>();
    const object = { shown: 1 };
    places.set(object, 'kept');
    expect(Reflect.ownKeys(object)).toEqual(['shown']);
    expect(Object.getPrototypeOf(object)).toBe(Object.prototype);
    expect(places.get({ ...object })).toBeUndefined();
    expect(places.get(structuredClone(object))).toBeUndefined();
  });

  it('distinguishes an object from its proxy', () => {
    const places = privateSlot<string>();
    const object = {};
    const heir = Object.create(object) as object;
    const proxy = new Proxy(object, {});
    places.set(object, 'kept');
    expect([places.get(heir), places.get(proxy)]).toEqual([undefined, undefined]);
    places.set(proxy, 'of the proxy');
    expect([places.get(object), places.get(proxy)]).toEqual(['kept', 'of the proxy']);
  });

  it('supports frozen objects and functions', () => {
    const places = privateSlot<string>();
    const later = { shown: 1 };
    places.set(later, 'kept');
    const objects = [Object.freeze({}), Object.seal({}), () => undefined, Object.freeze(later)];
    for (const object of objects) places.set(object, 'kept');
    expect(objects.map((object) => places.get(object))).toEqual(objects.map(() => 'kept'));
    for (const object of objects) places.set(object, undefined);
    expect(objects.map((object) => places.get(object))).toEqual(objects.map(() => undefined));
  });

  it('is separate for each slot', () => {
    const [one, other] = [privateSlot<string>(), privateSlot<string>()];
    const object = {};
    one.set(object, 'of the one');
    expect(other.get(object)).toBeUndefined();
    other.set(object, 'of the other');
    expect([one.get(object), other.get(object)]).toEqual(['of the one', 'of the other']);
  });
});
