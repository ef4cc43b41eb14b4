import { describe, expect, it } from '@jest/globals';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { DelegatingStore } from 'nestjs-idempotency/store';

type Property = 'system' | 'breaker' | 'deletedRecords' | 'transactional';
type Method = Exclude<keyof IdempotencyStore, Property>;

/** The number of arguments of every method of the port. */
const METHODS: Readonly<Record<Method, number>> = {
  open: 1,
  begin: 1,
  extend: 2,
  complete: 2,
  release: 2,
  inspect: 2,
  watch: 3,
  abandoned: 1,
  close: 1,
};

describe('DelegatingStore', () => {
  it.each(Object.entries(METHODS))('passes %s on, and returns its result', (method, count) => {
    const args = ['first', 'second', 'third'].slice(0, count);
    const result = Promise.resolve();
    const calls: unknown[][] = [];
    const wrapped = {
      [method]: (...received: unknown[]) => {
        calls.push(received);
        return result;
      },
    };
    const store = new DelegatingStore(wrapped as never);
    expect(Reflect.get(store, method).apply(store, args)).toBe(result);
    expect(calls).toEqual([args]);
  });

  it.each<Pick<IdempotencyStore, Property>>([
    { system: 'etcd', breaker: 'open', deletedRecords: 7, transactional: {} as never },
    { system: 'x', breaker: undefined, deletedRecords: undefined, transactional: undefined },
  ])('has the properties of the wrapped store', (wrapped) => {
    const { system, breaker, deletedRecords, transactional } = new DelegatingStore(
      wrapped as never,
    );
    expect({ system, breaker, deletedRecords, transactional }).toEqual(wrapped);
  });
});
