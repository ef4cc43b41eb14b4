import { expect, it } from '@jest/globals';
import { RenewedMap } from '../../../support/internals/core.js';

it('a renewed map has the entries of a map, however many were added and deleted', () => {
  const renewed = new RenewedMap<string, number>();
  const map = new Map<string, number>();
  for (let step = 0; step < 20_000; step += 1) {
    // Five hundred entries are present at a time; some are set again.
    const key = `key-${step - (step % 7 === 0 ? 100 : 0)}`;
    renewed.set(key, step);
    map.set(key, step);
    renewed.delete(`key-${step - 500}`);
    map.delete(`key-${step - 500}`);
    if (step % 997 !== 0) continue;
    expect([...renewed.keys()].sort()).toEqual([...map.keys()].sort());
    expect([...map].every(([name, value]) => renewed.get(name) === value)).toBe(true);
    expect(renewed.size).toBe(map.size);
  }
  expect(renewed.get('key-1')).toBeUndefined();
});
