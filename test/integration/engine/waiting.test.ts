import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import type { IdempotencyEvent } from 'nestjs-idempotency';
import type { Attempt } from '../../support/internals/core.js';
import { lostReply, unavailable } from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';
import {
  failure,
  outcomeAsText,
  newRequest,
  success,
  withOptions,
  withOtherPayload,
  type Worker,
} from '../../support/engine/worker.js';

const WAIT_TIMEOUT_MS = 10_000;
const LEASE_MS = 3_000;
const OPTIONS = {
  duplicates: { mode: 'wait', timeoutMs: WAIT_TIMEOUT_MS },
  lease: { durationMs: LEASE_MS },
} as const;
const IN_PROGRESS = { kind: 'reject', reason: 'in_progress' };

type Transport = IdempotencyEvent['transport'];

const time = inFakeTime();

/** The result of a promise so far. */
function watched<Result extends object>(promise: Promise<Result>) {
  const state: { result?: Result; at?: number } = {};
  void promise.then((result) => Object.assign(state, { result, at: time.elapsed }));
  return state;
}

/** One worker runs a request that another one will receive as well. */
async function running(other = time.worker()) {
  const worker = time.worker();
  const request = newRequest(OPTIONS);
  return { worker, other, request, attempt: await worker.run(request) };
}

/** The other worker has a waiting duplicate. */
async function duplicate(at?: Worker) {
  const scene = await running(at);
  return { ...scene, waiting: watched(scene.other.begin(scene.request)) };
}

describe('a duplicate that waits', () => {
  it.each([
    ['success', success('paid'), 'completed', 'paid'],
    ['kept failure', failure('declined'), 'failed', 'declined'],
  ])(
    'gets the %s of the first one as soon as it is stored [P22]',
    async (_, final, state, outcome) => {
      const { attempt, other, waiting } = await duplicate();
      await time.pass(5_000);
      expect(waiting.result).toBeUndefined();
      await attempt.complete(final);
      await time.pass(250);
      expect(outcomeAsText(waiting.result!)).toEqual({ kind: 'replay', state, outcome });
      expect(other.events).toMatchObject([
        { type: 'waited', waitedMs: waiting.at },
        { type: 'replayed', state },
      ]);
    },
  );

  it('is rejected after duplicates.timeoutMs', async () => {
    const { other, waiting } = await duplicate();
    await time.pass(WAIT_TIMEOUT_MS - 1);
    expect(waiting.result).toBeUndefined();
    await time.pass(5);
    expect(waiting.result).toEqual(IN_PROGRESS);
    expect(other.events).toMatchObject([
      { type: 'waited', waitedMs: waiting.at },
      { type: 'rejected', reason: 'in_progress' },
    ]);
  });

  it('runs when the first one releases the key', async () => {
    const { attempt, other, waiting } = await duplicate();
    await time.pass(1_000);
    await attempt.release();
    await time.pass(250);
    expect(waiting.result).toMatchObject({
      kind: 'run',
      attempt: { number: 2, isTakeover: false },
    });
    expect(other.reported).toEqual(['acquired', 'waited']);
  });

  it('takes over when the first one died', async () => {
    const { worker, waiting } = await duplicate();
    worker.store.always(unavailable, 'extend');
    await time.pass(LEASE_MS + 250);
    expect(waiting.result).toMatchObject({ kind: 'run', attempt: { number: 2, isTakeover: true } });
  });

  it('is one of many: exactly one runs when the first one releases the key', async () => {
    const { attempt, other, request } = await running();
    const waiting = Array.from({ length: 20 }, () => watched(other.begin(request)));
    await time.pass(1_000);
    await attempt.release();
    await time.pass(300);
    const runs = waiting.flatMap(({ result }) => (result?.kind === 'run' ? [result.attempt] : []));
    expect(runs).toHaveLength(1);
    await runs[0]!.complete(success('paid'));
    await time.pass(300);
    const replays = waiting.filter(({ result }) => result?.kind === 'replay');
    expect(replays).toHaveLength(19);
  });

  it('polls with one token, in growing pauses', async () => {
    const { other, request } = await running();
    void other.begin(request);
    await time.pass(WAIT_TIMEOUT_MS);
    const begins = other.store.sentOf('begin');
    expect(new Set(begins.map(({ token }) => token)).size).toBe(1);
    const pauses = begins.slice(1).map(({ at }, index) => at - begins[index]!.at);
    expect(pauses[0]).toBeLessThanOrEqual(20);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(251);
    // Ten seconds in pauses of 125 to 250 ms, with a few shorter ones at both ends.
    expect(begins.length).toBeLessThan(120);
  });

  it('does not wait when its payload differs', async () => {
    const { other, request } = await running();
    const decision = await other.begin(withOtherPayload(request));
    expect(decision).toEqual({ kind: 'reject', reason: 'mismatch' });
    expect(other.reported).toEqual(['rejected']);
  });

  it('keeps waiting while the store is down, and never runs concurrently with the first one', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newRequest(OPTIONS, { storeErrors: { whenUnavailable: 'execute' } });
    const attempt = await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(1_000);
    other.store.always(unavailable, 'begin');
    await time.pass(1_000);
    expect(waiting.result).toBeUndefined();
    await attempt.complete(success('paid'));
    other.store.heal();
    await time.pass(250);
    expect(outcomeAsText(waiting.result!)).toMatchObject({ kind: 'replay', outcome: 'paid' });
    // Reported once, however often it polled.
    expect(other.reported).toEqual(['store_unavailable', 'waited', 'replayed']);
  });

  it('releases what a begin without a reply may have acquired when it stops waiting', async () => {
    const { attempt, other, request, waiting } = await duplicate();
    await time.pass(1_000);
    other.store.always(lostReply, 'begin');
    await attempt.release();
    await time.pass(WAIT_TIMEOUT_MS);
    expect(waiting.result).toEqual(IN_PROGRESS);
    expect(await time.worker().run(request)).toMatchObject({ isTakeover: false });
  });

  it('ends with the process, without another pause', async () => {
    const { other, waiting } = await duplicate();
    await time.pass(1_000);
    void other.engine.drain();
    await time.pass(0);
    expect(waiting.result).toEqual({ kind: 'reject', reason: 'shutting_down' });
  });

  it('is one of at most maxWaiters; a further one is rejected at once', async () => {
    const { attempt, worker, other, request } = await running(
      time.worker({ maxWaiters: 2, maxWaitersPerKey: 2, maxWaitersPerCaller: 2 }),
    );
    const waiting = [watched(other.begin(request)), watched(other.begin(request))];
    await time.pass(0);
    expect(await other.begin(request)).toEqual(IN_PROGRESS);
    expect(other.events).toMatchObject([
      { type: 'waited', waitedMs: 0, end: 'key_full' },
      { type: 'rejected', reason: 'in_progress' },
    ]);
    await attempt.complete(success('paid'));
    await time.pass(250);
    for (const { result } of waiting) expect(result).toMatchObject({ kind: 'replay' });

    const next = newRequest(OPTIONS);
    await worker.run(next);
    const later = watched(other.begin(next));
    await time.pass(1_000);
    expect(later.result).toBeUndefined();
  });

  it('is rejected at once when maxWaiters is 0', async () => {
    const { other, request } = await running(time.worker({ maxWaiters: 0 }));
    expect(await other.begin(request)).toEqual(IN_PROGRESS);
  });
});

describe('The places of waiting duplicates', () => {
  /** Begins requests of a caller that another worker runs; each is a duplicate. */
  function crowd(worker: Worker) {
    const owner = time.worker();
    return async (
      scope: readonly string[],
      keys: number,
      duplicates: number,
      transport?: Transport,
    ) => {
      const all: { readonly attempt: Attempt; readonly waiting: ReturnType<typeof watched>[] }[] =
        [];
      for (let key = 0; key < keys; key += 1) {
        const request = { ...newRequest(OPTIONS), scope, transport };
        const attempt = await owner.run(request);
        const waiting = Array.from({ length: duplicates }, () => watched(worker.begin(request)));
        all.push({ attempt, waiting });
      }
      await time.pass(0);
      return {
        all,
        held: () =>
          all.flatMap(({ waiting }) => waiting).filter(({ result }) => result === undefined),
      };
    };
  }

  const endsOf = (worker: Worker) =>
    new Set(
      worker.eventsOf('waited').flatMap(({ waitedMs, end }) => (waitedMs === 0 ? [end] : [])),
    );

  it.each([
    ['one key', 1, 200, 10, 'key_full'],
    ['many keys', 40, 5, 25, 'caller_full'],
  ])(
    'are not all those of one caller who sends duplicates of %s',
    async (_, keys, duplicates, expected, end) => {
      const worker = time.worker({ maxWaiters: 100 });
      const begin = crowd(worker);
      const crowded = await begin(['mallory'], keys, duplicates);
      expect(crowded.held()).toHaveLength(expected);
      expect(endsOf(worker)).toEqual(new Set([end]));
      const other = await begin(['alice'], 1, 1);
      expect(other.held()).toHaveLength(1);
      await other.all[0]!.attempt.complete(success('paid'));
      await time.pass(500);
      expect(other.all[0]!.waiting[0]!.result).toMatchObject({ kind: 'replay' });
    },
  );

  it('are free again for the same caller and key, however a wait has ended', async () => {
    const worker = time.worker({ maxWaiters: 40, maxWaitersPerKey: 2, maxWaitersPerCaller: 2 });
    const begin = crowd(worker);
    const timedOut = await begin(['alice'], 1, 3);
    await time.pass(WAIT_TIMEOUT_MS + 10);
    expect(timedOut.held()).toHaveLength(0);
    const replayed = await begin(['alice'], 1, 3);
    expect(replayed.held()).toHaveLength(2);
    await replayed.all[0]!.attempt.complete(success('paid'));
    await time.pass(500);
    const released = await begin(['alice'], 2, 1);
    expect(released.held()).toHaveLength(2);
    for (const { attempt } of released.all) await attempt.release();
    await time.pass(500);
    expect((await begin(['alice'], 1, 3)).held()).toHaveLength(2);
  });

  it.each([
    ['tenant and user', ['acme', 'alice'], ['acme', 'bob'], undefined],
    ['parts that look alike when joined', ['a', 'bc'], ['ab', 'c'], undefined],
    ['the tenant of a message', ['billing', 'acme'], ['billing', 'other'], 'message'],
  ] as const)('are counted by %s', async (_, one, other, transport) => {
    const begin = crowd(time.worker({ maxWaitersPerCaller: 1 }));
    expect((await begin(one, 2, 1, transport)).held()).toHaveLength(1);
    expect((await begin(other, 1, 1, transport)).held()).toHaveLength(1);
  });

  it.each([
    ['anonymous callers who share a scope', [], 'http'],
    ['messages without a tenant', ['billing'], 'message'],
  ] as const)('are not counted for %s, but for their key', async (_, scope, transport) => {
    const worker = time.worker({ maxWaiters: 100, maxWaitersPerCaller: 1 });
    const begin = crowd(worker);
    expect((await begin(scope, 20, 1, transport)).held()).toHaveLength(20);
    expect((await begin(scope, 1, 20, transport)).held()).toHaveLength(10);
    expect((await begin(scope, 90, 1, transport)).held()).toHaveLength(70);
    expect(endsOf(worker)).toEqual(new Set(['key_full', 'process_full']));
  });
});

describe('A duplicate that waits on a store with push', () => {
  /** A worker whose store pushes. */
  function pushed() {
    const worker = time.worker();
    worker.store.pushes = true;
    return worker;
  }

  it.each([
    ['completed', (attempt: Attempt) => attempt.complete(success('paid')), { kind: 'replay' }],
    ['released', (attempt: Attempt) => attempt.release(), { kind: 'run' }],
  ])('continues at the instant at which it is %s', async (_, end, expected) => {
    const { attempt, waiting } = await duplicate(pushed());
    await time.pass(5_000);
    await end(attempt);
    await time.pass(0);
    expect(waiting).toMatchObject({ result: expected, at: 5_000 });
  });

  it('is one of many that share one poll', async () => {
    const { attempt, other, request } = await running(pushed());
    const waiting = Array.from({ length: 100 }, () => watched(other.begin(request)));
    await time.pass(200);
    await attempt.complete(success('paid'));
    await time.pass(0);
    for (const { result } of waiting)
      expect(outcomeAsText(result!)).toMatchObject({ outcome: 'paid' });
    // Each begins once; then one poll after the watch starts, and one at the end.
    expect(other.store.sentOf('begin')).toHaveLength(102);
  });

  it('does not miss an end that came before the watch began', async () => {
    const { attempt, other, request } = await running(pushed());
    const watching = Gate.closed();
    const watch = other.store.watch.bind(other.store);
    other.store.watch = async (...args) => {
      await watching.pass();
      return watch(...args);
    };
    const waiting = watched(other.begin(request));
    await time.pass(0);
    await attempt.complete(success('paid'));
    expect(waiting.result).toBeUndefined();
    watching.open();
    await time.pass(0);
    expect(waiting.result).toMatchObject({ kind: 'replay' });
  });

  it('polls from time to time, because a push may be lost', async () => {
    const [worker, other] = [time.worker(), pushed()];
    const request = newRequest(OPTIONS);
    const attempt = await worker.run(withOptions(request, { duplicates: 'reject' }));
    const waiting = watched(other.begin(request));
    await time.pass(5_000);
    // Its own route does not wait, so that no push is published.
    await attempt.complete(success('paid'));
    await time.pass(500);
    expect(waiting.result).toMatchObject({ kind: 'replay' });
    expect(other.store.sentOf('begin').length).toBeLessThan(30);
  });

  it('takes over at once from one that died', async () => {
    const { worker, waiting } = await duplicate(pushed());
    worker.store.always(unavailable, 'extend');
    await time.pass(LEASE_MS + 500);
    expect(waiting.result).toMatchObject({ kind: 'run', attempt: { isTakeover: true } });
  });

  it('does not get the outcome of another payload with its key', async () => {
    const { attempt, worker, other, request } = await running(pushed());
    const [waiting, asking] = [watched(other.begin(request)), watched(other.begin(request))];
    await attempt.release();
    const another = await worker.run(withOtherPayload(request));
    await another.complete(success('something else'));
    await time.pass(250);
    for (const { result } of [waiting, asking]) {
      expect(result).toEqual({ kind: 'reject', reason: 'mismatch' });
    }
  });

  it('stops watching when its wait is over', async () => {
    const [worker, other] = [time.worker(), pushed()];
    let watches = 0;
    const watch = other.store.watch.bind(other.store);
    other.store.watch = async (...args) => {
      const stop = await watch(...args);
      watches += 1;
      return () => {
        watches -= 1;
        stop?.();
      };
    };
    const request = newRequest(OPTIONS);
    await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(100);
    expect(watches).toBe(1);
    await time.pass(WAIT_TIMEOUT_MS);
    expect(waiting.result).toEqual(IN_PROGRESS);
    expect(watches).toBe(0);
  });
});

describe('A caller with a shorter wait', () => {
  it.each([
    ['sooner', 2_000, 2_000],
    ['at once', 0, 0],
    ['not later than the route', 60_000, WAIT_TIMEOUT_MS],
  ])('is rejected %s', async (_, waitAtMostMs, expected) => {
    const { other, request } = await running();
    const waiting = watched(other.begin({ ...request, waitAtMostMs }));
    await time.pass(Math.max(0, expected - 1));
    if (expected > 0) expect(waiting.result).toBeUndefined();
    await time.pass(2);
    expect(waiting.result).toEqual(IN_PROGRESS);
  });

  it('does not shorten the wait of other duplicates', async () => {
    const { attempt, other, request } = await running();
    const hasty = watched(other.begin({ ...request, waitAtMostMs: 1_000 }));
    const withLongTimeout = watched(other.begin(request));
    await time.pass(1_100);
    expect(hasty.result).toEqual(IN_PROGRESS);
    expect(withLongTimeout.result).toBeUndefined();
    await attempt.complete(success('paid'));
    await time.pass(250);
    expect(withLongTimeout.result).toMatchObject({ kind: 'replay' });
  });

  it('is rejected in time even when the wait queue is between polls', async () => {
    const { other, request } = await running();
    void other.begin(request);
    // By now the pause is 125 ms or more.
    await time.pass(3_000);
    const hasty = watched(other.begin({ ...request, waitAtMostMs: 30 }));
    await time.pass(31);
    expect(hasty.result).toEqual(IN_PROGRESS);
  });
});

describe('A caller who disconnects while waiting', () => {
  it('has no abort listener left once the wait is over', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    // Like the channel of a broker, it outlives the waiting messages.
    const gone = new AbortController();
    const listeners = () => getEventListeners(gone.signal, 'abort').length;
    const request = newRequest(OPTIONS);
    const attempt = await worker.run(request);
    const waiting = Array.from({ length: 3 }, () =>
      other.begin({ ...request, clientSignal: gone.signal }),
    );
    const hasty = other.begin({ ...request, clientSignal: gone.signal, waitAtMostMs: 100 });
    await time.pass(1);
    expect(listeners()).toBe(4);
    await time.pass(500);
    expect(await hasty).toEqual(IN_PROGRESS);
    expect(listeners()).toBe(3);
    await attempt.complete(success('paid'));
    await time.pass(500);
    for (const decision of await Promise.all(waiting)) {
      expect(decision).toMatchObject({ kind: 'replay' });
    }
    expect(listeners()).toBe(0);
  });

  it('leaves the wait queue at once', async () => {
    const { attempt, other, request } = await running(time.worker({ maxWaiters: 1 }));
    const gone = new AbortController();
    const left = watched(other.begin({ ...request, clientSignal: gone.signal }));
    await time.pass(1_000);
    expect(await other.begin(request)).toEqual(IN_PROGRESS);
    gone.abort();
    await time.pass(0);
    expect(left.result).toEqual(IN_PROGRESS);
    const next = watched(other.begin(request));
    await time.pass(100);
    await attempt.complete(success('paid'));
    await time.pass(250);
    expect(next.result).toMatchObject({ kind: 'replay' });
  });

  it('does not begin, and does not block other duplicates', async () => {
    const { attempt, other, request } = await running();
    const gone = new AbortController();
    void other.begin({ ...request, clientSignal: gone.signal });
    const withLongTimeout = watched(other.begin(request));
    await time.pass(1_000);
    gone.abort();
    await attempt.release();
    await time.pass(250);
    expect(other.reported.filter((type) => type === 'acquired')).toHaveLength(1);
    expect(withLongTimeout.result).toMatchObject({ kind: 'run', attempt: { number: 2 } });
  });

  it('sends no begin when no other duplicate waits', async () => {
    const { attempt, other, request } = await running();
    const gone = new AbortController();
    void other.begin({ ...request, clientSignal: gone.signal });
    await time.pass(1_000);
    gone.abort();
    const begins = other.store.sentOf('begin').length;
    await attempt.release();
    await time.pass(1_000);
    expect(other.store.sentOf('begin')).toHaveLength(begins);
  });
});
