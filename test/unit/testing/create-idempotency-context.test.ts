import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  currentIdempotencyContext,
  currentIdempotencyTransaction,
  IdempotencyService,
  NoIdempotencyContextError,
  NoTransactionError,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
  type IdempotencyContext,
} from 'nestjs-idempotency';
import {
  createIdempotencyContext,
  IdempotencyTestingModule,
  type IdempotencyTestContextOptions,
} from 'nestjs-idempotency/testing';

describe('createIdempotencyContext()', () => {
  it('is a protected first attempt', () => {
    const context: IdempotencyContext = createIdempotencyContext();
    expect(context).toMatchObject({
      ...{ operation: 'test', scope: [], key: 'test-key', attempt: 1, isTakeover: false },
      ...{ isProtected: true, fencingToken: 1 },
    });
    expect(context.signal.aborted).toBe(false);
  });

  it('has every member of the real one, and can replace it', async () => {
    const imports = [IdempotencyTestingModule.inMemory()];
    const module = await (await Test.createTestingModule({ imports }).compile()).init();
    const names: string[] = [];
    let key = '';
    await module
      .get(IdempotencyService)
      .run({ operation: 'pay', key: 'k', scope: ['a', 1] }, (real) => {
        names.push(...Object.keys(real));
        key = real.downstreamKey('bank');
      });
    await module.close();
    const context = createIdempotencyContext({ operation: 'pay', key: 'k', scope: ['a', 1] });
    expect(Object.keys(context)).toEqual(expect.arrayContaining(names));
    expect(names).toContain('fencingToken');
    expect(context.downstreamKey('bank')).toBe(key);
  });

  it.each<[IdempotencyTestContextOptions, Partial<IdempotencyContext>]>([
    [{ isTakeover: true }, { attempt: 2, isTakeover: true, fencingToken: 2 }],
    [
      { isTakeover: true, attempt: 5 },
      { attempt: 5, fencingToken: 5 },
    ],
    [{ isProtected: false }, { attempt: 1, isProtected: false, fencingToken: 0 }],
    [{ fencingToken: 77 }, { attempt: 1, fencingToken: 77 }],
    [
      { operation: 'o', scope: [1], key: 'k' },
      { operation: 'o', scope: [1], key: 'k' },
    ],
  ])('accepts %j', (options, members) => {
    expect(createIdempotencyContext(options)).toMatchObject(members);
  });

  it('rejects unknown options', () => {
    const misspelt = { isTakeOver: true } as IdempotencyTestContextOptions;
    expect(() => createIdempotencyContext(misspelt)).toThrow('"isTakeOver" is not an option of');
  });

  it('loses its lease on request, or when its own signal aborts', () => {
    const one = createIdempotencyContext();
    one.abort();
    expect(one.signal).toMatchObject({ aborted: true, reason: 'lost' });
    const other = createIdempotencyContext();
    other.abort('expired');
    expect(other.signal.reason).toBe('expired');
    const own = new AbortController();
    const { signal } = createIdempotencyContext({ signal: own.signal });
    expect(signal.aborted).toBe(false);
    own.abort('gone');
    expect(signal).toMatchObject({ aborted: true, reason: 'gone' });
  });

  it('reports the requested downstream keys', () => {
    const context = createIdempotencyContext();
    const { downstreamKey } = context;
    expect(downstreamKey('bank/charge')).toMatch(/^[\w-]{43}$/);
    expect(downstreamKey('bank/refund')).not.toBe(downstreamKey('bank/charge'));
    expect(context.downstreamNames).toEqual(['bank/charge', 'bank/refund', 'bank/charge']);
    const own = createIdempotencyContext({ downstreamKey: (name) => `key of ${name}` });
    expect(own.downstreamKey('bank')).toBe('key of bank');
    expect(own.downstreamNames).toEqual(['bank']);
  });

  it('keeps what is to follow the commit, where there is a transaction', async () => {
    const context = createIdempotencyContext({ transaction: {} });
    const called: string[] = [];
    context.onCommitted(async () => {
      await Promise.resolve();
      called.push('first');
    });
    context.onCommitted(() => {
      throw new Error('no mail');
    });
    context.onCommitted(() => called.push('third'));
    expect(called).toEqual([]);
    expect(context.commitHooks).toHaveLength(3);
    await expect(context.commit()).rejects.toThrow('no mail');
    expect(called).toEqual(['first']);
    await context.commit();
    expect(called).toEqual(['first', 'third']);
    expect(context.commitHooks).toEqual([]);
  });

  it('rejects what is to follow a commit that never comes', () => {
    const context = createIdempotencyContext();
    expect(() => {
      context.onCommitted(() => undefined);
    }).toThrow(NoTransactionError);
  });

  it('is available to the code that it runs', async () => {
    const transaction = { query: 1 };
    const context = createIdempotencyContext({ transaction });
    const found = await context.run(async () => {
      await Promise.resolve();
      return [requireIdempotencyContext(), requireIdempotencyTransaction<typeof transaction>()];
    });
    expect(found).toEqual([context, transaction]);
    expect(found[0]).toBe(context);
    const without = createIdempotencyContext();
    expect(without.run(() => currentIdempotencyTransaction())).toBeUndefined();
    expect(currentIdempotencyContext()).toBeUndefined();
    expect(requireIdempotencyContext).toThrow(NoIdempotencyContextError);
  });

  it('is available in one run and not in another', async () => {
    @Injectable()
    class Probe {
      async key(): Promise<string> {
        await Promise.resolve();
        return requireIdempotencyContext().key;
      }
    }
    const probe = new Probe();
    const keys = ['a', 'b'].map((key) => createIdempotencyContext({ key }).run(() => probe.key()));
    expect(await Promise.all(keys)).toEqual(['a', 'b']);
  });
});
