import { beforeEach, describe, expect, it } from '@jest/globals';
import { FailureReplayedError, ValueNotStorableError } from 'nestjs-idempotency';
import type { Outcome } from 'nestjs-idempotency/store';
import { resolveModuleOptions } from '../../support/internals/nest.js';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Fault } from '../../support/stores/faulty-store.js';
import { Caller, newCall } from '../../support/engine/caller.js';
import { expectNoTimerRenewed, StandingClock } from '../../support/clocks/standing-clock.js';
import { PromptStore } from '../../support/stores/prompt-store.js';

const LEASE_MS = 1_000;

let clock: StandingClock;
let caller: Caller;
beforeEach(() => {
  clock = new StandingClock();
  const store = new PromptStore({ now: () => clock.wallTime() });
  caller = new Caller(store, {}, clock);
});

/** An operation that counts its executions. */
function counted(operation: () => unknown) {
  const executed = {
    times: 0,
    operation: () => {
      executed.times += 1;
      return operation();
    },
  };
  return executed;
}

const responses =
  (reply: unknown): Fault =>
  <Reply>() =>
    Promise.resolve(reply as Reply);

/** A thenable that is not a promise, as query builders return. */
const thenable = (promise: Promise<unknown>) => ({
  then: (...handlers: Parameters<Promise<unknown>['then']>) => promise.then(...handlers),
});

describe('an operation that throws undefined', () => {
  const rejected = (): Promise<unknown> =>
    new Promise((_, reject: (reason?: unknown) => void) => {
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what this is about
      reject();
    });

  it.each<[string, () => unknown]>([
    ['at once', rejected],
    ['later', () => Promise.resolve().then(rejected)],
    ['in a thenable', () => thenable(rejected())],
  ])('fails and can run again: %s', async (_, failing) => {
    const call = newCall();
    expect(await caller.rejected(call, failing)).toBeUndefined();
    expect(caller.reported).toEqual(['acquired', 'released']);
    expect(await caller.call(call, () => 'paid')).toBe('paid');
  });
});

describe('a kept failure that is hard to serialize', () => {
  const unreadable = {
    get message(): string {
      throw new Error('planned: no message');
    },
  };

  it.each<[string, unknown]>([
    ['an object without a prototype', Object.create(null)],
    ['an error whose message is a BigInt', Object.assign(new Error(), { message: 7n })],
    ['an error whose message cannot be read', unreadable],
    ['null', null],
    ['a circle', Object.assign(new Error('circle'), { cause: globalThis })],
  ])('ends its attempt: %s', async (_, thrown) => {
    const call = newCall({ lease: { durationMs: LEASE_MS } }, () => true);
    const failing = counted(() => {
      throw thrown;
    });
    const rejection = await caller.rejected(call, failing.operation);
    expect(Object.is(rejection, thrown)).toBe(true);
    await expectNoTimerRenewed(clock);
    expect(await caller.rejected(call, failing.operation)).toBeInstanceOf(FailureReplayedError);
    expect(failing.times).toBe(1);
    expect(caller.reported).toEqual(['acquired', 'completed', 'replayed']);
  });
});

describe('a value that cannot be stored', () => {
  const notStorable = () => 7n;
  const stored = (text: string): Outcome => ({
    header: '{"call":1,"kind":"value"}',
    body: Buffer.from(text),
  });

  it('yields to the success of another attempt: all callers get one outcome', async () => {
    const superseded = { kind: 'superseded', state: 'completed', outcome: stored('"theirs"') };
    caller.store.next('complete', responses(superseded));
    expect(await caller.call(newCall(), notStorable)).toBe('theirs');
    expect(caller.reported).toEqual(['acquired', 'superseded']);
  });

  it('rejects its caller when it is the outcome', async () => {
    expect(await caller.rejected(newCall(), notStorable)).toBeInstanceOf(ValueNotStorableError);
  });
});

describe('an operation that returns a thenable', () => {
  it('is executed once, and keeps its lease until the thenable is settled', async () => {
    const call = newCall({ lease: { durationMs: LEASE_MS } });
    const slow = counted(() => thenable(clock.sleep(5 * LEASE_MS).then(() => 'paid')));
    const running = caller.call(call, slow.operation);
    await clock.advance(4 * LEASE_MS);
    expect(await caller.rejected(call, slow.operation)).toMatchObject({
      code: 'idempotency_in_progress',
    });
    await clock.advance(LEASE_MS);
    expect(await running).toBe('paid');
    expect(await caller.call(call, slow.operation)).toBe('paid');
    expect(slow.times).toBe(1);
  });

  it('whose then() throws ends its attempt', async () => {
    const call = newCall();
    const broken = {
      get then(): never {
        throw new Error('planned: no then');
      },
    };
    expect(await caller.rejected(call, () => broken)).toMatchObject({
      message: 'planned: no then',
    });
    expect(caller.reported).toEqual(['acquired', 'released']);
  });
});

describe('an outcome that is not the outcome of a call', () => {
  it.each([
    ['of HTTP', '[1,201,{}]'],
    ['of a later format', '{"call":2,"kind":"value"}'],
    ['of an unknown kind', '{"call":1,"kind":"stream"}'],
    ['that is not an object', '"text"'],
    ['that is null', 'null'],
    ['that is not JSON', 'status=201'],
    ['that is empty', ''],
  ])('rejects as done without a stored value: a header %s', async (_, header) => {
    const outcome: Outcome = { header, body: Buffer.from('"not mine"') };
    caller.store.next('begin', responses({ kind: 'completed', outcome, retentionLeftMs: 1_000 }));
    const executed = counted(() => 'paid');
    expect(await caller.rejected(newCall(), executed.operation)).toMatchObject({
      code: 'idempotency_response_not_kept',
      retryable: false,
    });
    expect(executed.times).toBe(0);
  });
});

describe('an invalid option', () => {
  const SECRET = 's3cret';
  const URL_WITH_PASSWORD = `redis://:${SECRET}@127.0.0.1:6379`;
  const messageOf = (action: () => unknown): string => {
    try {
      action();
    } catch (error) {
      return (error as Error).message;
    }
    throw new Error('the option was accepted');
  };

  it.each<[string, () => unknown]>([
    ['the module’s store', () => resolveModuleOptions({ store: URL_WITH_PASSWORD as never })],
    ['redisStore() itself', () => redisStore(URL_WITH_PASSWORD as never)],
    ['connection', () => redisStore({ connection: URL_WITH_PASSWORD as never })],
    [
      'a url of another scheme',
      () => redisStore({ url: URL_WITH_PASSWORD.replace('redis', 'http') }),
    ],
    ['a url without a scheme', () => redisStore({ url: `:${SECRET}@127.0.0.1` })],
    [
      'onConnectionError',
      () => redisStore({ url: 'redis://a', onConnectionError: SECRET as never }),
    ],
  ])('does not show a password in its value: %s', (_, action) => {
    expect(messageOf(action)).not.toContain(SECRET);
  });
});
