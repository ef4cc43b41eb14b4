import { describe, expect, it } from '@jest/globals';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { DelegatingStore, type TransactionalRecords } from 'nestjs-idempotency/store';

type Method = Exclude<keyof IdempotencyStore, 'transactional' | 'system'>;

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

  it('has the system and the transactional records of the wrapped store', () => {
    const transactional = {} as TransactionalRecords;
    const store = new DelegatingStore({ system: 'etcd', transactional } as IdempotencyStore);
    expect(store.system).toBe('etcd');
    expect(store.transactional).toBe(transactional);
  });
});
