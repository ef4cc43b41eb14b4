import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import { beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  ContentNotComparableError,
  FailureReplayedError,
  IdempotencyError,
  IdempotencyOptionsError,
  IdempotencyProblem,
  isIdempotencyError,
  NoIdempotencyContextError,
  OperationRejectedError,
  StoreConfigurationError,
  StoreOutcomeUnknownError,
  StoreReplyMismatchedError,
  StoreUnavailableError,
  ValueNotStorableError,
} from 'nestjs-idempotency';
import { StandingClock } from '../../../support/clocks/standing-clock.js';
import {
  type DeadlineListener,
  DeadlineTimer,
  jitteredPause,
  missingPeer,
  nodeClock,
  RenewedMap,
  ServerClock,
  SymbolSlot,
} from '../../../support/internals/core.js';
import { formatDuration } from '../../../support/internals/swagger.js';
import { projectRoot } from '../../../support/project-root.js';
import type { Steps } from './count-steps.js';

const errors: [Error & { code: string }, string][] = [
  [new ContentNotComparableError('m'), 'idempotency_content_invalid'],
  [new FailureReplayedError({ name: 'n', message: 'm' }), 'idempotency_failure_replayed'],
  [new IdempotencyOptionsError('m'), 'idempotency_options_invalid'],
  [new NoIdempotencyContextError('m'), 'idempotency_no_context'],
  [new OperationRejectedError('m', 'idempotency_in_progress', 1), 'idempotency_in_progress'],
  [new StoreConfigurationError('m'), 'idempotency_store_misconfigured'],
  [new StoreOutcomeUnknownError('m'), 'idempotency_store_outcome_unknown'],
  [new StoreReplyMismatchedError('m'), 'idempotency_store_reply_mismatched'],
  [new StoreUnavailableError('m'), 'idempotency_store_unavailable'],
  [new ValueNotStorableError('m'), 'idempotency_value_not_storable'],
];

describe('an error of the library', () => {
  it.each(errors)('%s has a stable code and its class as its name', (error, code) => {
    expect(error.code).toBe(code);
    expect(error.name).toBe(error.constructor.name);
    expect(error).toBeInstanceOf(IdempotencyError);
    expect(isIdempotencyError(error)).toBe(true);
  });

  it('is recognized even from another copy of the package', () => {
    const foreign = Object.assign(new Error('m'), { code: 'idempotency_in_progress' });
    expect(isIdempotencyError(foreign)).toBe(true);
  });

  it('is also the HTTP response', () => {
    const problem = IdempotencyProblem.of('idempotency_key_missing', {
      typeBase: 'https://api.example/problems',
      retryAfterMs: 1,
    });
    expect(isIdempotencyError(problem)).toBe(true);
  });

  it.each([
    ['a plain error', new Error('m')],
    ['an error with another code', Object.assign(new Error('m'), { code: 'ECONNREFUSED' })],
    ['an error with a numeric code', Object.assign(new Error('m'), { code: 11000 })],
    ['a lookalike', { code: 'idempotency_in_progress', message: 'm' }],
    ['null', null],
    ['undefined', undefined],
  ])('is not %s', (_, other) => {
    expect(isIdempotencyError(other)).toBe(false);
  });

  it('that rejects an operation says whether a retry can help', () => {
    const rejection = (retryAfterMs: number | undefined) =>
      new OperationRejectedError('m', 'idempotency_in_progress', retryAfterMs).retryable;
    expect(rejection(1_000)).toBe(true);
    expect(rejection(undefined)).toBe(false);
  });
});

const failed = (code?: string) => Object.assign(new Error('from the loader'), { code });
const reported = (error: unknown) =>
  missingPeer(error, 'pg', 'postgresStore opens its connections with');

describe('a peer that could not be loaded', () => {
  it.each(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'])(
    'is named, with how to install it: %s',
    (code) => {
      const error = failed(code);
      expect(reported(error)).toBeInstanceOf(IdempotencyOptionsError);
      expect(reported(error)).toMatchObject({
        code: 'idempotency_options_invalid',
        message:
          'postgresStore opens its connections with pg, which is not installed: npm install pg',
        cause: error,
      });
    },
  );

  it.each([failed(), failed('ERR_DLOPEN_FAILED'), 'a string', undefined])(
    'for any other reason rejects with that reason: %p',
    (error) => {
      expect(reported(error)).toBe(error);
    },
  );
});

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

const DAY_MS = 86_400_000;

describe('the deadline timer', () => {
  let clock: StandingClock;
  let deadlines: DeadlineTimer;
  let fired: string[];
  let started: number;

  beforeEach(() => {
    clock = new StandingClock();
    deadlines = new DeadlineTimer(clock);
    fired = [];
    started = clock.now();
  });

  function set(name: string, inMs: number, fire: () => void = () => undefined): DeadlineListener {
    const listener = {
      dueAt: started + inMs,
      onDeadline: () => {
        fired.push(`${name} at ${String(clock.now() - started)}`);
        fire();
      },
    };
    deadlines.schedule(listener);
    return listener;
  }

  it('calls deadlines when they are due, whatever the order they were set in', async () => {
    set('late', 300);
    set('early', 100);
    set('between', 200);
    await clock.advance(1_000);
    expect(fired).toEqual(['early at 100', 'between at 200', 'late at 300']);
  });

  it('calls those due at once in the order they were set in, and none twice', async () => {
    set('one', 100);
    set('two', 100);
    await clock.advance(1_000);
    expect(fired).toEqual(['one at 100', 'two at 100']);
  });

  it('calls no cancelled deadline, even if the one before it cancelled it', async () => {
    const off = set('off', 100);
    deadlines.cancel(off);
    const others: DeadlineListener[] = [];
    set('first', 200, () => {
      for (const other of others) deadlines.cancel(other);
    });
    others.push(set('second', 200));
    await clock.advance(1_000);
    expect(fired).toEqual(['first at 200']);
  });

  it('lets a callback schedule its deadline again', async () => {
    let left = 2;
    const again = {
      dueAt: started + 100,
      onDeadline: () => {
        fired.push(String(clock.now() - started));
        left -= 1;
        again.dueAt += 100;
        if (left > 0) deadlines.schedule(again);
      },
    };
    deadlines.schedule(again);
    await clock.advance(1_000);
    expect(fired).toEqual(['100', '200']);
  });

  it('waits for longer than a timer of Node can', async () => {
    set('in a month', 30 * DAY_MS);
    await clock.advance(30 * DAY_MS - 1);
    expect(fired).toEqual([]);
    await clock.advance(1);
    expect(fired).toEqual([`in a month at ${String(30 * DAY_MS)}`]);
  });

  it('has one timer for all, and none once all are over', async () => {
    for (let i = 0; i < 1_000; i += 1) set(`alarm ${String(i)}`, 100 + i);
    expect(clock.timerCount).toBe(1);
    await clock.advance(2_000);
    expect(fired).toHaveLength(1_000);
    expect(clock.timerCount).toBe(0);
  });

  it('checks many deadlines less often, and calls none of them early', async () => {
    const count = 20_000;
    for (let i = 0; i < count; i += 1) set('', 100 + i / 1_000);
    const wake = jest.spyOn(deadlines, 'wake');
    await clock.advance(1_000);
    expect(fired).toHaveLength(count);
    expect(wake.mock.calls.length).toBeLessThan(10);
    for (const [i, entry] of fired.entries()) {
      expect(Number(entry.slice(4))).toBeGreaterThanOrEqual(100 + i / 1_000);
    }
  });

  it('does not keep the process alive', () => {
    const real = new DeadlineTimer(nodeClock);
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout');
    const before = timers().length;
    const listener = { dueAt: nodeClock.now() + 60_000, onDeadline: () => undefined };
    real.schedule(listener);
    expect(timers()).toHaveLength(before);
    real.cancel(listener);
  });
});

describe('a jittered pause', () => {
  it('takes between half of its time and all of it, at random', async () => {
    const clock = new StandingClock();
    const startedAt = clock.now();
    const lengths: number[] = [];
    const pauses = Array.from({ length: 200 }, () =>
      jitteredPause(1_000, clock).then(() => lengths.push(clock.now() - startedAt)),
    );
    await clock.advance(499);
    expect(lengths).toEqual([]);
    await clock.advance(501);
    await Promise.all(pauses);
    const inThirds = lengths.map((length) => Math.min(2, Math.floor((length - 500) / 167)));
    expect(new Set(inThirds)).toEqual(new Set([0, 1, 2]));
  });
});

const SERVER_NOW = 1_900_000_000_000;
const NOW = 5_000;

describe('the last known time of the store’s clock', () => {
  it('is undefined before the first reply: no limit', () => {
    expect(new ServerClock().notAfter(500, NOW)).toBe(0);
  });

  it('advances with the local monotonic clock', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW, NOW);
    expect(clock.notAfter(500, NOW)).toBe(SERVER_NOW + 500);
    expect(clock.notAfter(500, NOW + 1_234)).toBe(SERVER_NOW + 1_234 + 500);
  });

  it.each([
    ['forwards', 3_600_000],
    ['backwards', -3_600_000],
  ])('is that of the last reply, also when the server stepped %s', (_, step) => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW, NOW);
    clock.observe(SERVER_NOW + step, NOW + 10);
    expect(clock.notAfter(500, NOW + 10)).toBe(SERVER_NOW + step + 500);
  });

  it('is in whole milliseconds', () => {
    const clock = new ServerClock();
    clock.observe(SERVER_NOW, NOW);
    expect(Number.isSafeInteger(clock.notAfter(500, NOW + 0.7))).toBe(true);
  });
});

describe('a duration in words', () => {
  it.each([
    [1, '1 millisecond'],
    [1_500, '1500 milliseconds'],
    [1_000, '1 second'],
    [90_000, '90 seconds'],
    [60_000, '1 minute'],
    [5_400_000, '90 minutes'],
    [3_600_000, '1 hour'],
    [86_400_000, '24 hours'],
    [172_800_000, '2 days'],
    [31_536_000_000, '365 days'],
  ])('%d is %s', (milliseconds, words) => {
    expect(formatDuration(milliseconds)).toBe(words);
  });
});

interface Counted {
  readonly readings: Readonly<Record<string, Steps>>;
  readonly mistakes: Readonly<Record<string, Steps>>;
}

/**
 * The ratio of the steps between 2n and 4n to those between n and 2n: 2 where they grow linearly, 4 where
 * quadratically. What does not grow may differ by a few.
 */
function growthOf([one, two, four]: Steps): number {
  return (four - two) / Math.max(two - one, 100);
}

/** Sorting and the tables of a Map take somewhat more than linear. */
const LINEAR = 2.5;

const notLinear = (counted: Readonly<Record<string, Steps>>) =>
  Object.entries(counted).filter(([, steps]) => growthOf(steps) > LINEAR);

describe('the steps to read foreign input', () => {
  let counted: Counted;

  beforeAll(async () => {
    // A process of its own: V8 counts the loops of what it compiles after counting was enabled.
    const loader = join(projectRoot, 'test/support/typescript/register.mjs');
    const main = join(import.meta.dirname, 'count-steps.ts');
    const { NODE_OPTIONS: _, ...env } = process.env;
    // V8 counts no calls of a function that its optimizing compiler has inlined.
    const args = ['--no-opt', '--import', loader, main];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env });
    counted = JSON.parse(stdout) as Counted;
  }, 120_000);

  it('grow linearly', () => {
    expect(Object.keys(counted.readings).length).toBeGreaterThan(30);
    expect(notLinear(counted.readings)).toEqual([]);
  });

  it('are more than linear in every planted mistake', () => {
    const found = notLinear(counted.mistakes).map(([mistake]) => mistake);
    expect(found).toEqual(Object.keys(counted.mistakes));
  });
});
