import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from '@jest/globals';
import { expectNoTimerRenewed } from '../../support/clocks/standing-clock.js';
import type { ProtocolOptions } from '../../support/internals/core.js';
import {
  failure,
  newRequest,
  outcomeAsText,
  success,
  withOptions,
  withOtherPayload,
} from '../../support/engine/worker.js';
import {
  type Fault,
  heldReply,
  lostReply,
  lostRequest,
  misconfigured,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';

const LEASE_MS = 3_000;

const OPTIONS = {
  storeErrors: { whenUnavailable: 'execute' },
  lease: { duration: LEASE_MS },
} as const;

const time = inFakeTime();

/** An attempt that runs although its begin failed; `other` is another process. */
async function unprotected(options: ProtocolOptions = {}) {
  const [worker, other] = [time.worker(), time.worker()];
  const request = newRequest(OPTIONS, options);
  worker.store.next('begin', unavailable);
  return { worker, other, request, attempt: await worker.run(request) };
}

describe("with whenUnavailable: 'execute'", () => {
  it('runs the operation without a record while the store is down, and reports it', async () => {
    const worker = time.worker();
    worker.store.always(unavailable, 'begin');
    const attempt = await worker.run(newRequest(OPTIONS));
    expect(attempt).toMatchObject({
      number: 1,
      isTakeover: false,
      isProtected: false,
      fencingToken: 0,
    });
    expect(attempt.signal.aborted).toBe(false);
    expect(worker.events).toMatchObject([
      { type: 'store_unavailable' },
      { type: 'unprotected', attempt: 1, fencingToken: 0 },
    ]);
  });

  it('responds without the store, and stores the outcome when the store is back', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    worker.store.always(unavailable, 'begin', 'complete');
    const attempt = await worker.run(request);
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    expect(time.elapsed).toBe(0);
    await time.pass(LEASE_MS / 2);
    worker.store.heal();
    await time.pass(1_000);
    expect(worker.reported).toEqual(['store_unavailable', 'unprotected', 'completed']);
    expect(worker.eventsOf('completed')).toMatchObject([{ late: true }]);
    expect(outcomeAsText(await time.worker().begin(request))).toEqual({
      kind: 'replay',
      state: 'completed',
      outcome: 'paid',
    });
  });

  it('retries the save until one lease after the response, then emits an event', async () => {
    const worker = time.worker();
    worker.store.always(unavailable, 'begin', 'complete');
    const attempt = await worker.run(newRequest(OPTIONS));
    await time.pass(10_000);
    await attempt.complete(success('paid'));
    await time.pass(LEASE_MS - 100);
    expect(worker.reported).not.toContain('save_failed');
    await time.pass(200);
    expect(worker.reported).toEqual(['store_unavailable', 'unprotected', 'save_failed']);
    await expectNoTimerRenewed(time.clock);
  });

  it('completes a begin that was executed after all with its own token, without a release before', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    worker.store.next('begin', lostReply);
    const attempt = await worker.run(request);
    await time.pass(0);
    expect(worker.store.sent.map(({ step }) => step)).toEqual(['begin']);
    const other = time.worker();
    expect(await other.begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
    await attempt.complete(success('paid'));
    await time.pass(0);
    const [begun] = worker.store.sentOf('begin');
    expect(worker.store.sentOf('complete')).toMatchObject([
      { token: begun!.token, fence: 0, command: { whenGone: 'restore' } },
    ]);
    expect(outcomeAsText(await other.begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('releases a record that was acquired after all when the operation fails', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    worker.store.next('begin', lostReply);
    const attempt = await worker.run(request);
    await attempt.release();
    await time.pass(0);
    expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it.each([
    ['a success', success('the other’s'), 'superseded'],
    ['a failure', failure('declined'), 'outcome_diverged'],
  ])('keeps the outcome of another attempt and reports it: %s', async (_, final, event) => {
    const { worker, other, request, attempt } = await unprotected();
    await (await other.run(request)).complete(final);
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    await time.pass(0);
    expect(worker.reported.at(-1)).toBe(event);
    expect(outcomeAsText(await worker.begin(request))).toMatchObject({ state: final.state });
  });

  it('keeps the outcome of another payload and reports it', async () => {
    const { worker, other, request, attempt } = await unprotected();
    const reused = withOtherPayload(request);
    await (await other.run(reused)).complete(success('of another'));
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    await time.pass(0);
    expect(worker.reported.at(-1)).toBe('outcome_diverged');
    expect(outcomeAsText(await worker.begin(reused))).toMatchObject({ outcome: 'of another' });
  });

  it('does not store a failure without a record, and reports it', async () => {
    const { worker, other, request, attempt } = await unprotected();
    expect(await attempt.complete(failure('declined'))).toEqual({ kind: 'own' });
    await time.pass(0);
    expect(worker.reported).toEqual(['store_unavailable', 'unprotected', 'save_failed']);
    expect(await other.run(request)).toMatchObject({ number: 1 });
  });

  it('does not disturb another running attempt, and reports it', async () => {
    const { worker, other, request, attempt } = await unprotected();
    const running = await other.run(request);
    await attempt.complete(success('paid'));
    await time.pass(LEASE_MS - 1);
    expect(worker.reported.at(-1)).toBe('unprotected');
    await time.pass(100);
    expect(worker.reported.at(-1)).toBe('outcome_diverged');
    expect(await running.complete(success('paid twice'))).toEqual({ kind: 'own' });
  });

  it('stores its outcome when another attempt releases the key', async () => {
    const { worker, other, request, attempt } = await unprotected();
    const running = await other.run(request);
    await attempt.complete(success('paid'));
    await running.release();
    await time.pass(LEASE_MS);
    expect(worker.reported.at(-1)).toBe('completed');
    expect(outcomeAsText(await other.begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('does not run the operation when the store is misconfigured', async () => {
    const worker = time.worker();
    worker.store.next('begin', misconfigured);
    const decision = await worker.begin(newRequest(OPTIONS));
    expect(decision).toEqual({ kind: 'reject', reason: 'store_unavailable' });
    expect(worker.reported).toEqual(['store_unavailable', 'rejected']);
  });

  it('does not run when the store replies: in progress, mismatch, done, outcome unknown', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newRequest(OPTIONS);
    const attempt = await worker.run(request);
    expect(await other.begin(request)).toMatchObject({ reason: 'in_progress' });
    expect(await other.begin(withOtherPayload(request))).toMatchObject({ reason: 'mismatch' });
    worker.store.always(unavailable, 'extend');
    await time.pass(2 * LEASE_MS);
    const never = withOptions(request, { lease: { onTakeover: 'reject' } });
    expect(await other.begin(never)).toMatchObject({ reason: 'outcome_unknown' });
    await attempt.complete(success('paid'));
    expect(await other.begin(request)).toMatchObject({ kind: 'replay' });
  });

  it('does not run without a record after a begin that was released because of its late reply', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    worker.store.next('begin', heldReply(gate));
    const request = newRequest(OPTIONS);
    const beginning = worker.begin(request);
    await time.pass(LEASE_MS);
    gate.open();
    const decision = await beginning;
    if (decision.kind === 'run') {
      // Its outcome must be stored then: a retry must not run it again.
      await decision.attempt.complete(success('paid'));
      await time.pass(LEASE_MS);
      expect(outcomeAsText(await time.worker().begin(request)).outcome).toBe('paid');
    } else {
      expect(decision).toEqual({ kind: 'reject', reason: 'store_unavailable' });
    }
  });

  it('does not run a request during shutdown', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    worker.store.next('begin', async (execute) => {
      await gate.pass();
      return unavailable(execute);
    });
    const decision = worker.begin(newRequest(OPTIONS));
    const drained = worker.engine.drain();
    gate.open();
    expect((await decision).kind).toBe('reject');
    await time.pass(100);
    expect(await drained).toBe(0);
  });

  it('the shutdown waits for the operation and its outcome', async () => {
    const { worker, attempt } = await unprotected();
    const gate = Gate.closed();
    worker.store.next('complete', heldReply(gate));
    let running: number | undefined;
    void worker.engine.drain().then((left) => (running = left));
    await time.pass(1_000);
    await attempt.complete(success('paid'));
    await time.pass(1_000);
    expect(running).toBeUndefined();
    gate.open();
    await time.pass(100);
    expect(running).toBe(0);
  });
});

describe('the signal of an unprotected attempt', () => {
  const limited = () => unprotected({ lease: { maxExecution: 10_000 } });

  it('aborts at the hard deadline, measured from the start, whenever it is first read', async () => {
    const [{ attempt: early }, { attempt: late }] = [await limited(), await limited()];
    const { signal } = early;
    await time.pass(9_900);
    expect(signal.aborted).toBe(false);
    await time.pass(200);
    for (const { reason } of [signal, late.signal]) {
      expect((reason as Error).name).toBe('TimeoutError');
    }
  });

  it('aborts in the async context of the begin', async () => {
    const request = new AsyncLocalStorage<string>();
    const { signal } = (await request.run('its own', limited)).attempt;
    const seen: unknown[] = [];
    signal.addEventListener('abort', () => seen.push(request.getStore()));
    await time.pass(10_100);
    expect(seen).toEqual(['its own']);
  });

  it('aborts long after a slow attempt was reported, and reports no loss of a lease', async () => {
    const { worker, attempt } = await limited();
    const { signal } = attempt;
    await time.pass(5_000);
    expect(worker.eventsOf('slow_attempt')).toMatchObject([{ attempt: 1, fencingToken: 0 }]);
    expect(signal.aborted).toBe(false);
    await time.pass(10_000);
    expect(signal.aborted).toBe(true);
    expect(worker.reported).toEqual(['store_unavailable', 'unprotected', 'slow_attempt']);
  });

  it.each(['complete', 'release'] as const)('does not abort after %s', async (end) => {
    const { attempt } = await limited();
    const { signal } = attempt;
    await (end === 'complete' ? attempt.complete(success('paid')) : attempt.release());
    await time.pass(20_000);
    expect(signal.aborted).toBe(false);
  });
});

describe('failing store', () => {
  const STORE_UNAVAILABLE = { kind: 'reject', reason: 'store_unavailable' };
  const IN_PROGRESS = { kind: 'reject', reason: 'in_progress' };

  /** A faulty store: it executes the command and returns this reply. */
  const responses =
    (reply: unknown): Fault =>
    async <Reply>(execute: () => Promise<Reply>) => {
      await execute();
      return reply as Reply;
    };

  const programmingError: Fault = () => {
    throw new TypeError('planned: a bug in the store');
  };

  const rejectedProgrammingError: Fault = () =>
    Promise.reject(new TypeError('planned: a bug in the store'));

  const throwsNoError: Fault = () =>
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what a careless store does
    Promise.reject('planned: not even an error');

  /** An error of another installed copy of the library: another class, the same code. */
  const ofAnotherCopy =
    (code: string): Fault =>
    () =>
      Promise.reject(Object.assign(new Error(`planned: ${code}`), { code }));

  /** The same fault, without executing the command. */
  const notExecuted =
    (fault: Fault): Fault =>
    () =>
      fault(() => Promise.resolve(undefined as never));

  const GARBAGE: [string, Fault][] = [
    ['undefined', responses(undefined)],
    ['null', responses(null)],
    ['an empty object', responses({})],
    ['a kind that does not exist', responses({ kind: 'zzz' })],
    ['the name of a method of all objects', responses({ kind: 'toString' })],
    ['a TypeError, rejected', rejectedProgrammingError],
    ['a TypeError, thrown at once', programmingError],
    ['something that is not an error', throwsNoError],
  ];

  /** The result of a promise so far. */
  function watched<Result extends object>(promise: Promise<Result>) {
    const state: { result?: Result } = {};
    void promise.then((result) => (state.result = result));
    return state;
  }

  describe('a waiting duplicate', () => {
    const OPTIONS = {
      duplicates: { mode: 'wait', timeout: 10_000 },
      lease: { duration: LEASE_MS },
      storeErrors: { whenUnavailable: 'execute' },
    } as const;

    it.each<[string, Fault]>([
      ['is down', unavailable],
      ['executes and does not reply', lostReply],
      ['does not reply', lostRequest],
      ['is misconfigured', misconfigured],
      ['has a bug', rejectedProgrammingError],
    ])(
      'never runs concurrently with the first one when the store %s at every second poll',
      async (_, fault) => {
        const [worker, other] = [time.worker(), time.worker()];
        const request = newRequest(OPTIONS);
        const attempt = await worker.run(request);
        const none: Fault = (execute) => execute();
        other.store.next('begin', none, ...Array.from({ length: 40 }, () => [fault, none]).flat());
        const waiting = watched(other.begin(request));
        await time.pass(5_000);
        expect(other.store.sentOf('begin').length).toBeGreaterThan(10);
        expect(waiting.result).toBeUndefined();
        await attempt.complete(success('paid'));
        await time.pass(1_000);
        expect(outcomeAsText(waiting.result!)).toMatchObject({ kind: 'replay', outcome: 'paid' });
        expect(other.reported).toEqual(['store_unavailable', 'waited', 'replayed']);
      },
    );

    it('that may have acquired the key releases it at shutdown', async () => {
      const [worker, other] = [time.worker(), time.worker()];
      const request = newRequest(OPTIONS);
      const attempt = await worker.run(request);
      const waiting = watched(other.begin(request));
      await time.pass(1_000);
      other.store.always(lostReply, 'begin');
      await attempt.release();
      await time.pass(250);
      const drained = other.engine.drain();
      await time.pass(250);
      expect(waiting.result).toEqual({ kind: 'reject', reason: 'shutting_down' });
      await time.pass(20);
      expect(await drained).toBe(0);
      const next = withOptions(request, { duplicates: 'reject' });
      expect(await time.worker().begin(next)).toMatchObject({ kind: 'run' });
    });

    it('that released an unusable lease is rejected at once, and the key is free', async () => {
      const [worker, other] = [time.worker(), time.worker()];
      const request = newRequest(OPTIONS, { storeErrors: { commandTimeout: 10_000 } });
      const attempt = await worker.run(request);
      const waiting = watched(other.begin(request));
      await time.pass(1_000);
      const slowReply: Fault = async (execute) => {
        const reply = await execute();
        await time.clock.sleep(LEASE_MS - 1);
        return reply;
      };
      other.store.next('begin', slowReply);
      other.store.next('extend', unavailable);
      await attempt.release();
      await time.pass(LEASE_MS + 250);
      expect(waiting.result).toEqual(STORE_UNAVAILABLE);
      expect(await time.worker().run(request)).toMatchObject({ number: 3, isTakeover: false });
    });
  });

  describe("with whenUnavailable: 'execute'", () => {
    it.each(GARBAGE)('nothing runs when the store replies to begin with %s', async (_, fault) => {
      const worker = time.worker();
      worker.store.always(fault, 'begin');
      const request = newRequest(OPTIONS);
      expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
      expect(worker.reported).toEqual(['store_unavailable', 'rejected']);
      await time.pass(0);
      // The begin may have acquired the record.
      expect(await time.worker().run(request)).toMatchObject({ isTakeover: false });
    });

    it.each([
      ['idempotency_store_unavailable', 'run'],
      ['idempotency_store_outcome_unknown', 'run'],
      ['idempotency_store_reply_mismatched', 'reject'],
      ['idempotency_store_misconfigured', 'reject'],
      ['idempotency_options_invalid', 'reject'],
      ['ECONNREFUSED', 'reject'],
    ])('a store of another copy of the package that fails with %s: %s', async (code, kind) => {
      const worker = time.worker();
      worker.store.always(ofAnotherCopy(code), 'begin');
      expect(await worker.begin(newRequest(OPTIONS))).toMatchObject({ kind });
      expect(worker.eventsOf('store_unavailable')).toMatchObject([{ error: { code } }]);
    });

    it.each(GARBAGE)(
      'a save is retried in growing pauses when the store replies with %s',
      async (_, fault) => {
        const worker = time.worker();
        worker.store.always(unavailable, 'begin');
        worker.store.always(notExecuted(fault), 'complete');
        const attempt = await worker.run(newRequest(OPTIONS));
        await attempt.complete(success('paid'));
        await time.pass(LEASE_MS + 1_000);
        expect(worker.store.sentOf('complete').length).toBeLessThan(20);
        expect(worker.reported).toEqual(['store_unavailable', 'unprotected', 'save_failed']);
        await expectNoTimerRenewed(time.clock);
      },
    );
  });

  describe('an unprotected attempt that failed', () => {
    it('releases with commandTimeout in the background', async () => {
      const worker = time.worker();
      const request = newRequest({
        storeErrors: { whenUnavailable: 'execute', commandTimeout: 500 },
      });
      worker.store.next('begin', lostReply);
      const attempt = await worker.run(request);
      await attempt.release();
      expect(worker.store.sentOf('release')).toMatchObject([{ command: { timeoutMs: 500 } }]);
    });
  });

  describe('a store with a reply that is not part of the port', () => {
    const OPTIONS = {
      lease: { duration: LEASE_MS, maxExecution: 30_000 },
      storeErrors: { saveTimeout: 1_000 },
    };

    it.each(GARBAGE)('has not stored the outcome: %s', async (_, fault) => {
      const worker = time.worker();
      const request = newRequest(OPTIONS);
      const attempt = await worker.run(request);
      worker.store.always(notExecuted(fault), 'complete');
      const settled = attempt.complete(success('paid'));
      await time.pass(5_000);
      expect(await settled).toEqual({ kind: 'own' });
      expect(worker.reported).toEqual(['acquired', 'save_delayed']);
      expect(worker.store.sentOf('complete').length).toBeLessThan(25);
      worker.store.heal();
      await time.pass(1_000);
      expect(worker.reported).toEqual(['acquired', 'save_delayed', 'completed']);
      expect(outcomeAsText(await time.worker().begin(request))).toMatchObject({ outcome: 'paid' });
    });

    it.each(GARBAGE)('has not released the record: %s', async (_, fault) => {
      const worker = time.worker();
      const attempt = await worker.run(newRequest(OPTIONS));
      worker.store.always(notExecuted(fault), 'release');
      const released = attempt.release();
      await time.pass(1_001);
      await released;
      expect(worker.reported).toEqual(['acquired', 'release_failed']);
      expect(worker.store.sentOf('release').length).toBeLessThan(15);
      expect(time.clock.timerCount).toBe(0);
    });

    it.each(GARBAGE)('has not extended the lease: %s', async (_, fault) => {
      const worker = time.worker();
      const { signal } = await worker.run(newRequest(OPTIONS));
      worker.store.always(notExecuted(fault), 'extend');
      await time.pass(LEASE_MS - 1);
      expect(signal.aborted).toBe(false);
      await time.pass(1);
      expect(signal.reason).toBe('expired');
      expect(worker.store.sentOf('extend').length).toBeLessThan(12);
    });
  });

  describe('a begin that cannot be placed in time', () => {
    // Because the clock jumped twice: begins-and-waiting.test.ts.
    it('because it was released before its reply emits that reason in its event', async () => {
      const worker = time.worker();
      const request = newRequest();
      const overtaken: Fault = async (execute) => {
        await execute();
        const token = worker.store.sentOf('begin').at(-1)!.token!;
        const lease = { recordKey: request.recordKey, token, fence: 0 };
        await worker.store.release(lease as never, { tombstoneMs: 60_000, timeoutMs: 500 });
        return execute();
      };
      worker.store.next('begin', overtaken);
      expect(await worker.begin(request)).toEqual(STORE_UNAVAILABLE);
      expect(worker.events).toMatchObject([
        {
          type: 'store_unavailable',
          error: { message: 'The attempt was released before begin got a reply.' },
        },
        { type: 'rejected', reason: 'store_unavailable' },
      ]);
      expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
    });
  });

  describe('a heartbeat without a reply', () => {
    it('does not lose the lease, although a command may take longer than the lease', async () => {
      const [worker, other] = [time.worker(), time.worker()];
      const request = newRequest({
        lease: { duration: 900 },
        storeErrors: { commandTimeout: 2_000 },
      });
      const attempt = await worker.run(request);
      const { signal } = attempt;
      const silent: Fault = async () => {
        // As the port requires: the store gives up after the command's own timeout.
        const { timeoutMs } = worker.store.sentOf('extend').at(-1)!.command;
        await time.clock.sleep(timeoutMs);
        return lostRequest(() => Promise.resolve(undefined as never));
      };
      worker.store.next('extend', silent);
      for (let elapsed = 0; elapsed < 2_700; elapsed += 50) {
        await time.pass(50);
        expect(await other.begin(request)).toEqual(IN_PROGRESS);
      }
      expect(signal.aborted).toBe(false);
      expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
      expect(worker.reported).toEqual(['acquired', 'completed']);
    });
  });

  describe('a record that vanished', () => {
    it('is reported once, by the heartbeat or by the save', async () => {
      const worker = time.worker();
      const request = newRequest({ lease: { duration: LEASE_MS } });
      const attempt = await worker.run(request);
      worker.store.next('extend', responses({ kind: 'gone' }));
      worker.store.next('complete', responses({ kind: 'restored' }));
      await time.pass(LEASE_MS);
      await attempt.complete(success('paid'));
      expect(worker.reported).toEqual(['acquired', 'lease_lost', 'record_lost', 'completed']);
    });
  });
});
