import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import {
  currentIdempotencyContext,
  currentIdempotencyTransaction,
  type IdempotencyContext,
  IdempotencyService,
  NoIdempotencyContextError,
  NoTransactionError,
  requireIdempotencyContext,
  requireIdempotencyTransaction,
} from 'nestjs-idempotency';
import {
  createIdempotencyContext,
  type IdempotencyTestContextOptions,
  IdempotencyTestingModule,
} from 'nestjs-idempotency/testing';
import { StandingClock } from '../../support/clocks/standing-clock.js';
import { DrivenClock } from '../../support/internals/testing.js';

describe('createIdempotencyContext()', () => {
  it('is a protected first attempt', () => {
    const context: IdempotencyContext = createIdempotencyContext();
    expect(context).toMatchObject({
      ...{ operation: 'test', scope: [], key: 'test-key', attempt: 1, isTakeover: false },
      ...{ isProtected: true, fencingToken: 1 },
    });
    expect(context.signal.aborted).toBe(false);
  });

  it.each([{}, { service: 'shop' }])('has every member of the real one of %j', async (named) => {
    const imports = [IdempotencyTestingModule.inMemory(named)];
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
    const identity = { ...named, operation: 'pay', key: 'k', scope: ['a', 1] };
    const context = createIdempotencyContext(identity);
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
});

describe('a clock that a test moves', () => {
  let clock: StandingClock;
  let startedAt: number;
  let called: string[];
  beforeEach(() => {
    clock = new StandingClock();
    startedAt = clock.now();
    called = [];
  });

  const note = (name: string) => called.push(`${name} at ${clock.now() - startedAt}`);

  it('calls timers in the order they are due, and those due at once in the order of their start', async () => {
    for (const [name, ms] of [
      ['late', 30],
      ['one', 10],
      ['two', 10],
    ] as const) {
      clock.setTimeout(note, ms, name);
    }
    await clock.advance(29);
    expect(called).toEqual(['one at 10', 'two at 10']);
    await clock.advance(1);
    expect(called).toEqual(['one at 10', 'two at 10', 'late at 30']);
    expect(clock.now() - startedAt).toBe(30);
  });

  it('lets promises and immediates settle before the next timer', async () => {
    const follow = async () => {
      await Promise.resolve();
      clock.setImmediate((name) => {
        note(name);
        clock.setImmediate(note, 'the next immediate');
      }, 'an immediate');
      clock.setTimeout(note, 5, 'a later timer');
    };
    clock.setTimeout(() => void follow(), 10, undefined);
    clock.setTimeout(note, 20, 'the last');
    await clock.advance(100);
    expect(called).toEqual([
      'an immediate at 10',
      'the next immediate at 10',
      'a later timer at 15',
      'the last at 20',
    ]);
  });

  it('moves the wall clock by as much', async () => {
    const before = clock.wallTime();
    await clock.advance(86_400_000);
    expect(clock.wallTime() - before).toBe(86_400_000);
    expect(Number.isInteger(clock.wallTime())).toBe(true);
  });

  it('calls no timer that was cleared, by another one either', async () => {
    const second = clock.setTimeout(note, 20, 'second');
    clock.setTimeout(
      () => {
        clock.clearTimeout(second);
      },
      10,
      undefined,
    );
    clock.clearTimeout(clock.setTimeout(note, 5, 'first'));
    clock.clearTimeout(undefined);
    await clock.advance(100);
    expect(called).toEqual([]);
    expect(clock.timerCount).toBe(0);
  });

  it('calls timers in the async context that they were started in', async () => {
    const context = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    context.run('its own', () => {
      clock.setTimeout(() => seen.push(context.getStore()), 10, undefined);
    });
    await context.run('the test’s', () => clock.advance(10));
    expect(seen).toEqual(['its own']);
  });

  it('rejects with the error of a timer, and goes on afterwards', async () => {
    clock.setTimeout(
      () => {
        throw new Error('planned');
      },
      10,
      undefined,
    );
    clock.setTimeout(note, 20, 'next');
    await expect(clock.advance(100)).rejects.toThrow('planned');
    await clock.advance(100);
    expect(called).toEqual(['next at 20']);
  });

  it('is awaited by timers that keep the process alive', async () => {
    expect(clock.isAwaited).toBe(false);
    clock.setTimeout(note, 10, 'unreferenced').unref();
    expect(clock.isAwaited).toBe(false);
    const timer = clock.setTimeout(note, 10, 'referenced');
    expect(clock.isAwaited).toBe(true);
    clock.clearTimeout(timer);
    expect(clock.isAwaited).toBe(false);
  });
});

describe('a clock that a test has moved', () => {
  it('goes on by itself, and calls what is left when it is due', async () => {
    const clock = new DrivenClock();
    const startedAt = clock.now();
    const calledAt = new Promise<number>((resolve) => {
      clock.setTimeout(
        () => {
          resolve(clock.now() - startedAt);
        },
        60_020,
        undefined,
      );
    });
    await clock.advance(60_000);
    const before = clock.now();
    // A timer of Node may be early by a part of a millisecond.
    expect(await calledAt).toBeGreaterThanOrEqual(60_019);
    expect(clock.now()).toBeGreaterThan(before);
  });

  it('does not keep the process alive by a timer that must not', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout');
    const before = timers().length;
    const clock = new DrivenClock();
    const timer = clock.setTimeout(() => undefined, 60_000, undefined);
    timer.unref();
    await clock.advance(10_000);
    expect(timers()).toHaveLength(before);
    clock.clearTimeout(timer);
  });
});
