import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  FailureReplayedError,
  IdempotencyEvents,
  IdempotencyMeter,
  type IdempotencyStore,
  ValueNotStorableError,
} from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { redisStore } from 'nestjs-idempotency/redis';
import type { Outcome, OwnerToken } from 'nestjs-idempotency/store';
import { expectNoTimerRenewed, StandingClock } from '../../support/clocks/standing-clock.js';
import { Caller, newCall } from '../../support/engine/caller.js';
import { EventTally, numbersOf } from '../../support/engine/event-tally.js';
import { noServices } from '../../support/engine/protocol-options.js';
import {
  newRequest,
  outcomeAsText,
  outcomeOf,
  RETENTION_MS,
  success,
  withOptions,
  withOtherPayload,
  type Worker,
} from '../../support/engine/worker.js';
import { CallTransport } from '../../support/internals/call.js';
import {
  type Attempt,
  DEFAULT_LIMITS,
  executionScope,
  IdempotencyEngine,
  type ProtocolOptions,
  Telemetries,
} from '../../support/internals/core.js';
import { resolveModuleOptions } from '../../support/internals/nest.js';
import {
  type Fault,
  FaultyStore,
  heldReply,
  heldRequest,
  lostReply,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { PromptStore } from '../../support/stores/prompt-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { until } from '../../support/waiting/until.js';
import { inFakeTime } from './support/in-fake-time.js';

const LEASE_MS = 1_000;

describe('With limits.maxAttemptsPerCaller', () => {
  const TOO_MANY = { kind: 'reject', reason: 'too_many_attempts' };

  const time = inFakeTime();

  /** A worker that runs two operations of each caller at a time. */
  const limited = () => time.worker({ maxAttemptsPerCaller: 2 });

  /** A request of a caller of HTTP. */
  function requestOf(scope: readonly string[], options: ProtocolOptions = {}) {
    const transport = 'http' as const;
    return { ...newRequest({ lease: { duration: LEASE_MS } }, options), scope, transport };
  }

  it('one more operation of a caller does not run, and its key is free; another caller runs', async () => {
    const worker = limited();
    await worker.run(requestOf(['mallory']));
    const second = await worker.run(requestOf(['mallory']));
    const third = requestOf(['mallory']);
    expect(await worker.begin(third)).toEqual(TOO_MANY);
    expect(worker.events.at(-1)).toMatchObject({ type: 'rejected', reason: 'too_many_attempts' });
    expect(worker.eventsOf('ended')).toMatchObject([{ how: 'not_started' }]);
    await worker.run(requestOf(['alice']));
    await second.complete(success('paid'));
    expect(await worker.run(third)).toMatchObject({ isTakeover: false });
    expect(await worker.begin(requestOf(['mallory']))).toEqual(TOO_MANY);
  });

  it.each<[string, (attempt: Attempt) => unknown]>([
    ['its outcome is stored', (attempt) => attempt.complete(success('paid'))],
    ['its key is released', (attempt) => attempt.release()],
  ])('the place of an operation is free once %s, and counts once', async (_, end) => {
    const worker = limited();
    for (let round = 0; round < 5; round += 1) {
      const attempts = [
        await worker.run(requestOf(['alice'])),
        await worker.run(requestOf(['alice'])),
      ];
      for (let more = 0; more < 3; more += 1) {
        expect(await worker.begin(requestOf(['alice']))).toEqual(TOO_MANY);
      }
      for (const attempt of attempts) await end(attempt);
    }
  });

  it('a caller at the limit still gets replays, and rejections of duplicates', async () => {
    const worker = limited();
    const done = requestOf(['alice']);
    await (await worker.run(done)).complete(success('paid'));
    const running = requestOf(['alice']);
    await worker.run(running);
    await worker.run(requestOf(['alice']));
    expect(outcomeAsText(await worker.begin(done))).toMatchObject({ outcome: 'paid' });
    expect(await worker.begin(running)).toMatchObject({ reason: 'in_progress' });
  });

  it('callers without a scope, and messages without a tenant, are not counted', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    for (let times = 0; times < 3; times += 1) {
      await worker.run(requestOf([]));
      await worker.run({ ...requestOf(['billing']), transport: 'message' });
    }
    const ofTenant = () => ({ ...requestOf(['billing', 'acme']), transport: 'message' as const });
    await worker.run(ofTenant());
    expect(await worker.begin(ofTenant())).toEqual(TOO_MANY);
  });

  it('what an operation calls belongs to it', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    const outer = await worker.run(requestOf(['alice']));
    const inner = await executionScope.run({ context: {} as never }, () =>
      worker.run(requestOf(['alice'])),
    );
    await inner.complete(success('inner'));
    expect(await worker.begin(requestOf(['alice']))).toEqual(TOO_MANY);
    await outer.complete(success('outer'));
    await worker.run(requestOf(['alice']));
  });

  it('a takeover runs, and takes a place', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    const dead = time.worker();
    dead.store.always(unavailable, 'extend');
    const abandoned = requestOf(['alice']);
    await dead.run(abandoned);
    const running = await worker.run(requestOf(['alice']));
    await time.pass(LEASE_MS + 1);
    const takeover = await worker.run(abandoned);
    expect(takeover.isTakeover).toBe(true);
    await running.complete(success('paid'));
    expect(await worker.begin(requestOf(['alice']))).toEqual(TOO_MANY);
    await takeover.complete(success('paid'));
    await worker.run(requestOf(['alice']));
  });

  it('a duplicate that has waited does not run either', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    const waiting = requestOf(['alice'], { duplicates: 'wait' });
    const elsewhere = await time.worker().run(waiting);
    const decided = worker.begin(waiting);
    await time.pass(100);
    await worker.run(requestOf(['alice']));
    await elsewhere.release();
    await time.pass(500);
    expect(await decided).toEqual(TOO_MANY);
  });

  it('an operation that would run without protection does not run either', async () => {
    const worker = time.worker({ maxAttemptsPerCaller: 1 });
    worker.store.always(unavailable, 'begin', 'release');
    const unlessAvailable = () =>
      requestOf(['alice'], { storeErrors: { whenUnavailable: 'execute' } });
    const first = await worker.run(unlessAvailable());
    expect(await worker.begin(unlessAvailable())).toEqual(TOO_MANY);
    expect(worker.eventsOf('unprotected')).toHaveLength(1);
    worker.store.heal();
    await first.complete(success('paid'));
    await time.pass(LEASE_MS);
    await worker.run(requestOf(['alice']));
  });
});

describe('contexts', () => {
  const OPTIONS = {
    lease: { duration: 300, maxExecution: 600 },
    outcome: { retention: 10_000 },
  };

  const time = inFakeTime();

  const engineOf = (store: IdempotencyStore, events: IdempotencyEvents, telemetry?: Telemetries) =>
    new IdempotencyEngine(store, events, DEFAULT_LIMITS, undefined, telemetry, time.clock);

  it('a timer of an attempt runs in the async context of its begin', async () => {
    const request = new AsyncLocalStorage<string>();
    const events = new IdempotencyEvents();
    const engine = engineOf(time.store, events);
    const seen: string[] = [];
    const notes = (what: string) =>
      seen.push(`${what} in the context of ${String(request.getStore())}`);
    const requests = new Map(['A', 'B'].map((name) => [name, newRequest(OPTIONS)]));
    events.subscribe(({ type, recordKey }) => {
      const [name] =
        [...requests].find(([, operationRequest]) => operationRequest.recordKey === recordKey) ??
        [];
      notes(`${type} of ${String(name)}`);
    });
    for (const [name, operationRequest] of requests) {
      await request.run(name, async () => {
        const decision = await engine.begin(operationRequest);
        if (decision.kind !== 'run') throw new Error(decision.kind);
        decision.attempt.signal.addEventListener('abort', () => notes(`abort of ${name}`));
      });
      await time.pass(20);
    }
    await time.pass(700);
    for (const name of requests.keys()) {
      const own = seen.filter((note) => note.includes(` of ${name} in`));
      expect(own).toEqual(
        expect.arrayContaining(
          ['slow_attempt', 'lease_lost', 'abort'].map(
            (what) => `${what} of ${name} in the context of ${name}`,
          ),
        ),
      );
      expect(own.filter((note) => !note.endsWith(` ${name}`))).toEqual([]);
    }
  });

  it('a subscriber is notified of attempts that began before it subscribed', async () => {
    const events = new IdempotencyEvents();
    const engine = engineOf(time.store, events);
    const seen: string[] = [];
    const begun = async () => {
      const request = newRequest(OPTIONS);
      const decision = engine.begin(request);
      await time.pass(0);
      return { request, decision: await decision };
    };
    const [completed, released] = [await begun(), await begun()];
    if (completed.decision.kind !== 'run' || released.decision.kind !== 'run') throw new Error();
    events.subscribe(({ type }) => seen.push(type));
    const settled = [
      completed.decision.attempt.complete(success('paid')),
      released.decision.attempt.release(),
    ];
    await time.pass(0);
    await Promise.all(settled);
    const again = engine.begin(completed.request);
    await time.pass(0);
    expect(await again).toMatchObject({ kind: 'replay' });
    expect(seen).toEqual(['completed', 'ended', 'released', 'ended', 'replayed']);
  });

  it('a duplicate that runs after another has left begins in its own async context', async () => {
    const context = new AsyncLocalStorage<string>();
    const events = new IdempotencyEvents();
    const store = new FaultyStore(time.store, time.clock);
    const traceOf = () => context.getStore();
    const telemetry = new Telemetries({ start: () => () => undefined, traceOf }, events);
    const engine = engineOf(store, events, telemetry);
    const seen: string[] = [];
    events.subscribe(({ type }) => seen.push(`${type} in ${String(context.getStore())}`));
    const request = newRequest({
      ...OPTIONS,
      lease: { duration: 60_000 },
      duplicates: { mode: 'wait', timeout: 10_000 },
    });
    const begin = async (name: string, clientSignal?: AbortSignal) => {
      const beginning = context.run(name, () => engine.begin({ ...request, clientSignal }));
      await time.pass(50);
      return beginning;
    };
    const first = await begin('first');
    if (first.kind !== 'run') throw new Error(first.kind);
    const leaving = new AbortController();
    const leaver = begin('leaver', leaving.signal);
    await time.pass(50);
    const waiter = begin('waiter');
    await time.pass(50);
    leaving.abort();
    expect(await leaver).toMatchObject({ kind: 'reject' });
    const { attempt } = first;
    await Promise.all([context.run('first', () => attempt.release()), time.pass(1_000)]);
    expect(await waiter).toMatchObject({ kind: 'run' });
    expect(seen).toEqual([
      'acquired in first',
      'waited in leaver',
      'rejected in leaver',
      'released in first',
      'ended in first',
      'acquired in waiter',
      'waited in waiter',
    ]);
    const notes = store.sentOf('begin').map(({ command }) => 'note' in command && command.note);
    expect([notes[0], notes.at(-1)]).toEqual(['first', 'waiter']);
  });
});

describe('event details', () => {
  const LEASE_MS = 3_000;
  const NOTE = 'the-trace-of-another-process';

  describe('the trace of an execution, which its record has as a note,', () => {
    const time = inFakeTime();

    /** An attempt of another process, which writes its trace. */
    async function traced() {
      const worker = time.worker();
      const request = newRequest({ lease: { duration: LEASE_MS } });
      const { recordKey, fingerprint } = request;
      const token = 'a-token-of-another-one' as OwnerToken;
      const reply = await worker.store.begin({
        ...{
          recordKey,
          fingerprint,
          token,
          note: NOTE,
          leaseMs: LEASE_MS,
          maxExecutionMs: LEASE_MS,
        },
        ...{ recordRetentionMs: RETENTION_MS, notAfter: 0, onExpiredLease: 'takeover' },
        timeoutMs: 100,
      });
      const fence = 'fence' in reply ? reply.fence : 0;
      return { worker, request, lease: { recordKey, token, fence } };
    }

    it('is in the event of a duplicate that is rejected', async () => {
      const { worker, request } = await traced();
      await worker.begin(request);
      await worker.begin(withOtherPayload(request));
      expect(worker.events).toMatchObject([
        { type: 'rejected', reason: 'in_progress', trace: NOTE },
        { type: 'rejected', reason: 'mismatch', trace: undefined },
      ]);
    });

    it('is in the event of a replay', async () => {
      const { worker, request, lease } = await traced();
      const { fingerprint } = request;
      const outcome = outcomeOf('paid');
      await worker.store.complete(lease, {
        ...{ state: 'completed', outcome, fingerprint, retentionMs: RETENTION_MS },
        ...{ whenGone: 'report', timeoutMs: 100 },
      });
      await worker.begin(request);
      expect(worker.events).toMatchObject([{ type: 'replayed', trace: NOTE }]);
    });

    it('is in the event of a takeover', async () => {
      const { worker, request } = await traced();
      await time.pass(LEASE_MS);
      await worker.run(request);
      expect(worker.events).toMatchObject([{ type: 'takeover', trace: NOTE }]);
    });
  });

  describe('the end of a wait is', () => {
    const time = inFakeTime();
    const options = { duplicates: { mode: 'wait', timeout: 2_000 } } as const;

    async function waiting() {
      const owner = time.worker();
      const worker = time.worker();
      const caller = new AbortController();
      const request = { ...newRequest(options), clientSignal: caller.signal };
      const attempt = await owner.run(request);
      const decided = worker.begin(request);
      await time.pass(100);
      const end = async () => {
        await time.pass(3_000);
        await decided;
        return worker.eventsOf('waited').map(({ end: how }) => how);
      };
      return { worker, attempt, caller, end };
    }

    it.each<[string, (scene: Awaited<ReturnType<typeof waiting>>) => unknown]>([
      ['outcome', ({ attempt }) => attempt.complete(success('paid'))],
      ['released', ({ attempt }) => attempt.release()],
      ['timeout', () => undefined],
      ['caller_gone', ({ caller }) => caller.abort()],
      ['shutdown', ({ worker }) => void worker.engine.drain()],
    ])('%s', async (how, cause) => {
      const scene = await waiting();
      await cause(scene);
      expect(await scene.end()).toEqual([how]);
    });
  });
});

describe('invocations', () => {
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
      const call = newCall({ lease: { duration: LEASE_MS } }, () => true);
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
      const call = newCall({ lease: { duration: LEASE_MS } });
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
});

class MeteredCalls {
  readonly meter = new IdempotencyMeter();
  readonly events = new IdempotencyEvents(this.meter);
  readonly store = new FaultyStore(memoryStore());
  private readonly engine = new IdempotencyEngine(this.store, this.events, DEFAULT_LIMITS);
  private readonly calls = new CallTransport(this.engine, noServices);

  constructor() {
    this.meter.readFrom(this.engine);
  }

  async call(options: ProtocolOptions, operation: () => unknown, call = newCall(options)) {
    return { call, result: await this.calls.settle(call, operation) };
  }

  read() {
    return numbersOf(this.meter.read());
  }
}

const failing = () => {
  throw new Error('planned');
};

/** Requests that end in different ways. */
async function send(calls: MeteredCalls): Promise<void> {
  const { call } = await calls.call({}, () => 1);
  await calls.call({}, () => 1, call);
  await calls.call({}, () => 1, { ...call, fingerprint: newCall().fingerprint.slice(1) as never });
  await calls.call({}, failing);
  await calls.call(
    {},
    failing,
    newCall({}, () => true),
  );
  calls.store.next('begin', unavailable, unavailable);
  await calls.call({}, () => 1);
  await calls.call({ storeErrors: { whenUnavailable: 'execute' } }, () => 1);
  const gate = Gate.closed();
  const waiting = newCall({ duplicates: { mode: 'wait' } });
  const first = calls.call({}, () => gate.pass(), waiting);
  await until(() => calls.read()['pay running'] === 1);
  const second = calls.call({}, failing, waiting);
  await until(() => calls.read()['pay waiting'] === 1);
  await calls.call({}, failing, { ...waiting, waitAtMostMs: 0 });
  gate.open();
  await Promise.all([first, second]);
  await until(() => calls.read()['pay running'] === undefined);
}

const EXPECTED = {
  'pay requests call executed': 4,
  'pay requests call replayed': 2,
  'pay requests call mismatch': 1,
  'pay requests call in_progress': 1,
  'pay requests call store_unavailable': 1,
  'pay requests call unprotected': 1,
  'pay incidents unprotected': 1,
  'pay attempts kept': 4,
  'pay attempts released': 1,
  'pay waits outcome': 1,
};

describe('the meter', () => {
  it('counts requests without a subscriber', async () => {
    const calls = new MeteredCalls();
    await send(calls);
    expect(calls.read()).toEqual(EXPECTED);
  });

  it('counts the same with a subscriber, and what the events say', async () => {
    const calls = new MeteredCalls();
    const tally = new EventTally();
    calls.events.subscribe((event) => {
      tally.add(event);
    });
    await send(calls);
    expect(calls.read()).toEqual(EXPECTED);
    expect(tally.numbers).toEqual(EXPECTED);
  });
});

describe('own attempts', () => {
  const LEASE_MS = 3_000;
  const MAX_EXECUTION_MS = 10_000;
  const OPTIONS = { lease: { duration: LEASE_MS, maxExecution: MAX_EXECUTION_MS } } as const;
  const IN_PROGRESS = { kind: 'reject', reason: 'in_progress' };
  const OUTCOME_UNKNOWN = { kind: 'reject', reason: 'outcome_unknown' };

  const time = inFakeTime();

  /** No heartbeat gets through, as when the event loop is blocked. */
  function losesItsLeases(): Worker {
    const worker = time.worker();
    worker.store.always(unavailable, 'extend');
    return worker;
  }

  /** An attempt whose lease has run out. */
  async function expired(options: ProtocolOptions = {}) {
    const worker = losesItsLeases();
    const request = newRequest(OPTIONS, options);
    const attempt = await worker.run(request);
    await time.pass(LEASE_MS);
    return { worker, request, attempt };
  }

  describe('An attempt whose lease ran out, in the process that runs it,', () => {
    it('stays in progress until its hard deadline, then loses its key', async () => {
      const { worker, request } = await expired();
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      await time.pass(MAX_EXECUTION_MS - LEASE_MS - 1);
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      await time.pass(1);
      expect(await worker.run(request)).toMatchObject({ number: 2, isTakeover: true });
    });

    it('can complete, and is replayed', async () => {
      const { worker, request, attempt } = await expired();
      await worker.begin(request);
      expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
      expect(outcomeAsText(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
    });

    it('is not taken over by a begin sent before it, which was late and is sent again', async () => {
      const worker = losesItsLeases();
      await worker.run(newRequest());
      const request = newRequest(OPTIONS);
      const gate = Gate.closed();
      worker.store.next('begin', heldRequest(gate));
      const begun = worker.begin(request);
      const attempt = await worker.run(request);
      // Ends the lease, and passes the limit of the begin on its way.
      time.skewStore(LEASE_MS);
      gate.open();
      expect(await begun).toEqual(IN_PROGRESS);
      expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
      expect(worker.reported).not.toContain('takeover');
    });

    it('keeps waiting duplicates waiting for its outcome', async () => {
      const { worker, request, attempt } = await expired({ duplicates: 'wait' });
      const waiting = worker.begin(request);
      await time.pass(1_000);
      await attempt.complete(success('paid'));
      await time.pass(250);
      expect(outcomeAsText(await waiting)).toMatchObject({ kind: 'replay', outcome: 'paid' });
      expect(worker.reported).not.toContain('takeover');
    });

    it('is in progress while its outcome is still being saved', async () => {
      const worker = losesItsLeases();
      const request = newRequest(OPTIONS, { storeErrors: { saveTimeout: 1 } });
      const attempt = await worker.run(request);
      worker.store.always(unavailable, 'complete');
      const settled = attempt.complete(success('paid'));
      await time.pass(LEASE_MS);
      expect(await settled).toEqual({ kind: 'own' });
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      worker.store.heal();
      await time.pass(1_000);
      expect(outcomeAsText(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
    });

    it('is taken over by a duplicate with a recovery once its operation is over', async () => {
      const { worker, request, attempt } = await expired({
        storeErrors: { saveTimeout: 1 },
        lease: { onTakeover: () => 'run' },
      });
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      worker.store.always(unavailable, 'complete');
      const settled = attempt.complete(success('paid'));
      await time.pass(1);
      await settled;
      expect(await worker.run(request)).toMatchObject({ number: 2, isTakeover: true });
    });

    it("has an unknown outcome with onTakeover: 'reject' only past its hard deadline", async () => {
      const { worker, request } = await expired({ lease: { onTakeover: 'reject' } });
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      expect(await time.worker().begin(request)).toEqual(OUTCOME_UNKNOWN);
      await time.pass(MAX_EXECUTION_MS - LEASE_MS);
      expect(await worker.begin(request)).toEqual(OUTCOME_UNKNOWN);
    });

    it('stays in progress when the result of its begin was unknown', async () => {
      const worker = time.worker();
      const request = newRequest(OPTIONS, { storeErrors: { whenUnavailable: 'execute' } });
      worker.store.next('begin', lostReply);
      const attempt = await worker.run(request);
      await time.pass(LEASE_MS);
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      await attempt.complete(success('paid'));
      await time.pass(0);
      expect(outcomeAsText(await worker.begin(request))).toMatchObject({ outcome: 'paid' });
    });

    it('is taken over by another process', async () => {
      const { request } = await expired();
      expect(await time.worker().run(request)).toMatchObject({ isTakeover: true });
    });

    it('loses the key once another process that took it over has died', async () => {
      const { worker, request } = await expired();
      const dead = losesItsLeases();
      await dead.run(request);
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      await time.pass(LEASE_MS);
      expect(await worker.run(request)).toMatchObject({ number: 3, isTakeover: true });
      const rejecting = withOptions(newRequest(OPTIONS), { lease: { onTakeover: 'reject' } });
      await worker.run(rejecting);
      await time.pass(LEASE_MS);
      await dead.run(withOptions(rejecting, { lease: { onTakeover: 'run' } }));
      await time.pass(LEASE_MS);
      expect(await worker.begin(rejecting)).toEqual(OUTCOME_UNKNOWN);
    });

    it('has no effect once it has ended', async () => {
      const worker = time.worker();
      const request = newRequest(OPTIONS);
      await (await worker.run(request)).release();
      await losesItsLeases().run(request);
      await time.pass(LEASE_MS);
      const sent = worker.store.sentOf('begin').length;
      expect(await worker.run(request)).toMatchObject({ number: 3, isTakeover: true });
      expect(worker.store.sentOf('begin')).toHaveLength(sent + 1);
    });
  });

  describe('A begin whose reply has not been read', () => {
    it('is not taken over by a duplicate of the same process', async () => {
      const worker = time.worker();
      const gate = Gate.closed();
      const request = newRequest(OPTIONS);
      worker.store.next('begin', heldReply(gate));
      const first = worker.begin(request);
      await time.pass(LEASE_MS);
      expect(await worker.begin(request)).toEqual(IN_PROGRESS);
      gate.open();
      await first;
      expect(worker.reported).not.toContain('takeover');
    });

    it.each([
      ['run', 'takeover'],
      ['reject', 'outcome_unknown'],
    ] as const)(
      'does not affect a duplicate that finds the record of a dead process: %s',
      async (onTakeover, said) => {
        const worker = time.worker();
        const gate = Gate.closed();
        const request = newRequest(OPTIONS, { lease: { onTakeover } });
        await losesItsLeases().run(withOptions(request, { lease: { onTakeover: 'run' } }));
        await time.pass(LEASE_MS);
        worker.store.next('begin', heldRequest(gate));
        const onItsWay = worker.begin(request);
        const duplicate = await worker.begin(request);
        expect(duplicate.kind === 'run' ? 'takeover' : outcomeAsText(duplicate).reason).toBe(said);
        gate.open();
        expect(await onItsWay).toMatchObject({
          reason: onTakeover === 'run' ? 'in_progress' : 'outcome_unknown',
        });
      },
    );

    it('does not block a duplicate when it fails', async () => {
      const worker = time.worker();
      const { request } = await expired();
      worker.store.next('begin', unavailable);
      const [failed, duplicate] = await Promise.all([worker.begin(request), worker.begin(request)]);
      expect(failed).toEqual({ kind: 'reject', reason: 'store_unavailable' });
      expect(duplicate).toMatchObject({ kind: 'run', attempt: { isTakeover: true } });
    });

    it('is taken over only once when concurrent duplicates find the record of a dead process', async () => {
      const worker = time.worker();
      const { request } = await expired();
      const decisions = await Promise.all(Array.from({ length: 10 }, () => worker.begin(request)));
      expect(decisions.filter(({ kind }) => kind === 'run')).toHaveLength(1);
      expect(worker.reported.filter((type) => type === 'takeover')).toHaveLength(1);
    });
  });
});
