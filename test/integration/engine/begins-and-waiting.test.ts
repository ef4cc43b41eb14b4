import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { type IdempotencyEvent, StoreOutcomeUnknownError } from 'nestjs-idempotency';
import type { Begin } from 'nestjs-idempotency/store';
import {
  failure,
  newRequest,
  outcomeAsText,
  success,
  withOptions,
  withOtherPayload,
  type Worker,
} from '../../support/engine/worker.js';
import type { Attempt } from '../../support/internals/core.js';
import {
  type Fault,
  heldReply,
  heldRequest,
  lostReply,
  lostRequest,
  misconfigured,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';

describe('begins', () => {
  const HOUR_MS = 3_600_000;
  const COMMAND_TIMEOUT_MS = 500;
  const STORE_UNAVAILABLE = { kind: 'reject', reason: 'store_unavailable' };

  const time = inFakeTime();

  const notAfters = (worker: Worker) =>
    worker.store.sentOf('begin').map(({ command }) => (command as Begin).notAfter);

  describe('the limit of a begin', () => {
    it('is 0 until the store’s clock is known, then that clock plus commandTimeout', async () => {
      const worker = time.worker();
      time.skewStore(HOUR_MS);
      await worker.run(newRequest());
      await time.pass(1_234);
      await worker.run(newRequest());
      const serverNow = time.clock.wallTime() + HOUR_MS;
      expect(notAfters(worker)).toEqual([0, serverNow + COMMAND_TIMEOUT_MS]);
    });

    it('does not depend on the wall clock of the process', async () => {
      const worker = time.worker();
      await worker.run(newRequest());
      const limit = time.clock.wallTime() + COMMAND_TIMEOUT_MS;
      time.clock.stepWallTime(-HOUR_MS);
      time.skewStore(HOUR_MS);
      await worker.run(newRequest());
      expect(notAfters(worker)[1]).toBe(limit);
    });

    it('is recomputed once, with the same token, when the server’s clock jumps past it', async () => {
      const worker = time.worker();
      await worker.run(newRequest());
      time.skewStore(HOUR_MS);
      const attempt = await worker.run(newRequest());
      expect(attempt).toMatchObject({ number: 1, isTakeover: false });
      const [, late, again] = worker.store.sentOf('begin');
      expect(worker.store.sentOf('begin')).toHaveLength(3);
      expect(again!.token).toBe(late!.token);
      expect(notAfters(worker)[2]).toBe(time.clock.wallTime() + HOUR_MS + COMMAND_TIMEOUT_MS);
      await worker.run(newRequest());
      expect(worker.store.sentOf('begin')).toHaveLength(4);
    });

    it('counts from when begin is sent again, however long the first reply took', async () => {
      const worker = time.worker();
      await worker.run(newRequest());
      const gate = Gate.closed();
      time.skewStore(HOUR_MS);
      worker.store.next('begin', heldReply(gate));
      const begun = worker.run(newRequest());
      await time.pass(100);
      const serverNow = time.clock.wallTime() - 100 + HOUR_MS;
      gate.open();
      await begun;
      expect(notAfters(worker)[2]).toBe(serverNow + COMMAND_TIMEOUT_MS);
    });

    it('rejects the request when it is passed twice in a row, and says why', async () => {
      const worker = time.worker();
      await worker.run(newRequest());
      const jump: Fault = (execute) => {
        time.skewStore(HOUR_MS);
        return execute();
      };
      worker.store.next('begin', jump, jump);
      const request = newRequest();
      expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
      expect(worker.store.sentOf('begin')).toHaveLength(3);
      expect(worker.events.slice(1)).toMatchObject([
        {
          type: 'store_unavailable',
          error: {
            code: 'idempotency_store_unavailable',
            message: expect.stringContaining('commandTimeout'),
          },
        },
        { type: 'rejected', reason: 'store_unavailable' },
      ]);
      expect(await time.worker().run(request)).toMatchObject({ number: 1 });
    });

    it('has no effect when the server’s clock stepped back', async () => {
      const worker = time.worker();
      await worker.run(newRequest());
      time.skewStore(-HOUR_MS);
      expect(await worker.run(newRequest())).toMatchObject({ number: 1 });
      expect(worker.store.sentOf('begin')).toHaveLength(2);
    });

    it('prevents a delayed command from acquiring after its caller has given up', async () => {
      const worker = time.worker();
      await worker.run(newRequest());
      const gate = Gate.closed();
      let delayed: Promise<unknown> | undefined;
      // The caller gives up on the reply while the command is still in flight.
      const stuck: Fault = async (execute) => {
        delayed = heldRequest(gate)(execute);
        await time.pass(COMMAND_TIMEOUT_MS);
        throw new StoreOutcomeUnknownError('planned: no reply in time');
      };
      worker.store.next('begin', stuck);
      const request = newRequest();
      expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
      await time.pass(1);
      gate.open();
      expect(await delayed).toMatchObject({ kind: 'late' });
      expect(await time.worker().run(request)).toMatchObject({ number: 1 });
    });
  });

  describe('a begin with an unknown result', () => {
    it.each([
      ['was executed', lostReply, 2],
      ['was not executed', lostRequest, 1],
    ])('that %s is released, and its key is free at once', async (_, fault, number) => {
      const worker = time.worker();
      const request = newRequest();
      worker.store.next('begin', fault);
      expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
      await time.pass(0);
      const [begun] = worker.store.sentOf('begin');
      expect(worker.store.sentOf('release')).toMatchObject([{ token: begun!.token, fence: 0 }]);
      expect(worker.events).toMatchObject([
        { type: 'store_unavailable', error: { code: 'idempotency_store_outcome_unknown' } },
        { type: 'rejected', reason: 'store_unavailable' },
      ]);
      expect(await time.worker().run(request)).toMatchObject({ number, isTakeover: false });
    });

    it('does not make its caller wait for the release', async () => {
      const worker = time.worker();
      const gate = Gate.closed();
      worker.store.next('begin', lostReply);
      worker.store.next('release', heldRequest(gate));
      expect(await worker.begin(newRequest())).toEqual(STORE_UNAVAILABLE);
      gate.open();
    });

    it('blocks the key for at most its lease when the release is lost as well', async () => {
      const worker = time.worker();
      const request = newRequest({ lease: { duration: 1_000 } });
      worker.store.next('begin', lostReply);
      worker.store.next('release', unavailable);
      expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
      const other = time.worker();
      expect(await other.begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
      await time.pass(1_000);
      expect(await other.run(request)).toMatchObject({ number: 2, isTakeover: true });
    });

    it('never changes the record of another attempt', async () => {
      const owner = time.worker();
      const [running, finished] = [newRequest(), newRequest()];
      const attempt = await owner.run(running);
      await (await owner.run(finished)).complete(success('paid'));
      const worker = time.worker();
      worker.store.always(lostReply, 'begin');
      for (const request of [running, finished]) {
        expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
      }
      await time.pass(0);
      expect(worker.store.sentOf('release')).toHaveLength(2);
      expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
      expect(owner.reported).not.toContain('superseded');
      for (const request of [running, finished]) {
        expect(outcomeAsText(await owner.begin(request))).toMatchObject({ outcome: 'paid' });
      }
    });
  });

  describe('a begin that was not executed', () => {
    it('rejects the request and sends no release', async () => {
      const worker = time.worker();
      worker.store.next('begin', unavailable);
      expect(await worker.begin(newRequest())).toEqual(STORE_UNAVAILABLE);
      await time.pass(0);
      expect(worker.store.sent.map(({ step }) => step)).toEqual(['begin']);
      expect(worker.reported).toEqual(['store_unavailable', 'rejected']);
    });

    it('emits the configuration error in its event', async () => {
      const worker = time.worker();
      worker.store.next('begin', misconfigured);
      expect(await worker.begin(newRequest())).toEqual(STORE_UNAVAILABLE);
      expect(worker.events[0]).toMatchObject({
        type: 'store_unavailable',
        error: { code: 'idempotency_store_misconfigured' },
      });
    });
  });

  describe('a begin with a late reply', () => {
    const LEASE_MS = 900;
    const OPTIONS = { lease: { duration: LEASE_MS }, storeErrors: { commandTimeout: 10_000 } };

    /** Begins, and delays the reply or the request by `ms`. */
    async function delayed(worker: Worker, ms: number, held: (gate: Gate) => Fault) {
      const gate = Gate.closed();
      worker.store.next('begin', held(gate));
      const request = newRequest(OPTIONS);
      const decision = worker.begin(request);
      await time.pass(ms);
      gate.open();
      return { request, decision: await decision };
    }

    it('runs without an extension in the first two thirds of its lease', async () => {
      const worker = time.worker();
      const { decision } = await delayed(worker, (2 / 3) * LEASE_MS - 1, heldReply);
      expect(decision.kind).toBe('run');
      expect(worker.store.sent.map(({ step }) => step)).toEqual(['begin']);
    });

    it('extends its lease before it runs in the last third of it', async () => {
      const worker = time.worker();
      const { decision, request } = await delayed(worker, (2 / 3) * LEASE_MS, heldReply);
      expect(decision.kind).toBe('run');
      expect(worker.store.sentOf('extend')[0]).toMatchObject({ command: { leaseMs: LEASE_MS } });
      await time.pass(LEASE_MS - 1);
      expect(await time.worker().begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
    });

    it.each([
      ['cannot be extended', unavailable],
      ['is extended but the reply is lost', lostReply],
    ])('does not run when its lease %s, and the key is free', async (_, fault) => {
      const worker = time.worker();
      worker.store.next('extend', fault);
      const { decision, request } = await delayed(worker, (2 / 3) * LEASE_MS, heldReply);
      expect(decision).toEqual(STORE_UNAVAILABLE);
      expect(worker.reported).toEqual(['acquired', 'released', 'store_unavailable', 'rejected']);
      expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
    });

    it('does not run when its lease has expired, even without a takeover', async () => {
      const worker = time.worker();
      const { decision, request } = await delayed(worker, LEASE_MS, heldReply);
      expect(decision).toEqual(STORE_UNAVAILABLE);
      expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
    });

    it('does not run after a takeover, and does not disturb the new owner', async () => {
      const worker = time.worker();
      const gate = Gate.closed();
      worker.store.next('begin', heldReply(gate));
      const request = newRequest(OPTIONS);
      const decision = worker.begin(request);
      await time.pass(LEASE_MS);
      const taker = await time.worker().run(request);
      gate.open();
      expect(await decision).toEqual(STORE_UNAVAILABLE);
      expect(await taker.complete(success('paid'))).toEqual({ kind: 'own' });
    });

    it('measures its lease from the extension', async () => {
      const worker = time.worker();
      // The request took longer than a lease, so the lease at the store is a fresh one.
      const { decision } = await delayed(worker, 2 * LEASE_MS, heldRequest);
      expect(worker.store.sentOf('extend')).toHaveLength(1);
      if (decision.kind !== 'run') throw new Error('a begin with an extended lease must run');
      const { signal } = decision.attempt;
      await time.pass(LEASE_MS / 3);
      expect(signal.aborted).toBe(false);
      expect(worker.reported).toEqual(['acquired']);
      expect(await decision.attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    });
  });

  describe('a begin of an operation that can be recovered', () => {
    it('stores operation, scope and key in the record for the reconciler', async () => {
      const worker = time.worker();
      const request = newRequest({ lease: { onTakeover: () => 'run' } });
      await worker.run(request);
      const record = await worker.store.inspect(request.recordKey, {
        timeoutMs: COMMAND_TIMEOUT_MS,
      });
      const origin = Buffer.from(record?.origin ?? '', 'base64url').toString();
      expect(JSON.parse(origin)).toEqual([request.operation, request.scope, request.key]);
    });

    it.each(['run', 'reject'] as const)(
      'stores no origin with onTakeover: %j',
      async (onTakeover) => {
        const worker = time.worker();
        const request = newRequest({ lease: { onTakeover } });
        await worker.run(request);
        const record = await worker.store.inspect(request.recordKey, {
          timeoutMs: COMMAND_TIMEOUT_MS,
        });
        expect(record).toMatchObject({ state: 'in_progress' });
        expect(record?.origin).toBeUndefined();
      },
    );
  });

  describe('a begin after a released takeover', () => {
    it('is also a takeover: the outcome of the first attempt is still unknown', async () => {
      const [first, second, third] = [time.worker(), time.worker(), time.worker()];
      const request = newRequest({ lease: { duration: 3_000 } });
      await first.run(request);
      first.store.always(unavailable, 'extend');
      await time.pass(3_100);
      await (await second.run(request)).release();
      expect(await third.run(request)).toMatchObject({ number: 3, isTakeover: true });
      expect(third.reported).toEqual(['takeover']);
    });
  });
});

describe('waiting', () => {
  const WAIT_TIMEOUT_MS = 10_000;
  const LEASE_MS = 3_000;
  const OPTIONS = {
    duplicates: { mode: 'wait', timeout: WAIT_TIMEOUT_MS },
    lease: { duration: LEASE_MS },
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

    it('is rejected after duplicates.timeout', async () => {
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
      expect(waiting.result).toMatchObject({
        kind: 'run',
        attempt: { number: 2, isTakeover: true },
      });
    });

    it('is one of many: exactly one runs when the first one releases the key', async () => {
      const { attempt, other, request } = await running();
      const waiting = Array.from({ length: 20 }, () => watched(other.begin(request)));
      await time.pass(1_000);
      await attempt.release();
      await time.pass(300);
      const runs = waiting.flatMap(({ result }) =>
        result?.kind === 'run' ? [result.attempt] : [],
      );
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
});
