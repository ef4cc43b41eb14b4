import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from '@jest/globals';
import {
  heldReply,
  lostReply,
  misconfigured,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { expectNoTimerRenewed } from '../../support/clocks/standing-clock.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';
import {
  failure,
  outcomeAsText,
  newRequest,
  success,
  withOptions,
  withOtherPayload,
} from '../../support/engine/worker.js';

const LEASE_MS = 3_000;
const OPTIONS = {
  storeErrors: { whenUnavailable: 'execute' },
  lease: { durationMs: LEASE_MS },
} as const;

describe("with whenUnavailable: 'execute'", () => {
  const time = inFakeTime();

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
    const [worker, other] = [time.worker(), time.worker()];
    const request = newRequest(OPTIONS);
    worker.store.next('begin', unavailable);
    const attempt = await worker.run(request);
    await (await other.run(request)).complete(final);
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    await time.pass(0);
    expect(worker.reported.at(-1)).toBe(event);
    expect(outcomeAsText(await worker.begin(request))).toMatchObject({ state: final.state });
  });

  it('keeps the outcome of another payload and reports it', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newRequest(OPTIONS);
    worker.store.next('begin', unavailable);
    const attempt = await worker.run(request);
    const reused = withOtherPayload(request);
    await (await other.run(reused)).complete(success('of another'));
    expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    await time.pass(0);
    expect(worker.reported.at(-1)).toBe('outcome_diverged');
    expect(outcomeAsText(await worker.begin(reused))).toMatchObject({ outcome: 'of another' });
  });

  it('does not store a failure without a record, and reports it', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    worker.store.next('begin', unavailable);
    const attempt = await worker.run(request);
    expect(await attempt.complete(failure('declined'))).toEqual({ kind: 'own' });
    await time.pass(0);
    expect(worker.reported).toEqual(['store_unavailable', 'unprotected', 'save_failed']);
    expect(await time.worker().run(request)).toMatchObject({ number: 1 });
  });

  it('does not disturb another running attempt, and reports it', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newRequest(OPTIONS);
    worker.store.next('begin', unavailable);
    const attempt = await worker.run(request);
    const running = await other.run(request);
    await attempt.complete(success('paid'));
    await time.pass(LEASE_MS - 1);
    expect(worker.reported.at(-1)).toBe('unprotected');
    await time.pass(100);
    expect(worker.reported.at(-1)).toBe('outcome_diverged');
    expect(await running.complete(success('paid twice'))).toEqual({ kind: 'own' });
  });

  it('stores its outcome when another attempt releases the key', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newRequest(OPTIONS);
    worker.store.next('begin', unavailable);
    const attempt = await worker.run(request);
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
    const worker = time.worker();
    worker.store.next('begin', unavailable);
    const attempt = await worker.run(newRequest(OPTIONS));
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
  const time = inFakeTime();

  async function unprotected() {
    const worker = time.worker();
    worker.store.next('begin', unavailable);
    return worker.run(newRequest(OPTIONS, { lease: { maxExecutionMs: 10_000 } }));
  }

  it('aborts at the hard deadline, measured from the start, whenever it is first read', async () => {
    const [early, late] = [await unprotected(), await unprotected()];
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
    const { signal } = await request.run('its own', unprotected);
    const seen: unknown[] = [];
    signal.addEventListener('abort', () => seen.push(request.getStore()));
    await time.pass(10_100);
    expect(seen).toEqual(['its own']);
  });

  it('aborts long after a slow attempt was reported, and reports no loss of a lease', async () => {
    const worker = time.worker();
    worker.store.next('begin', unavailable);
    const { signal } = await worker.run(newRequest(OPTIONS, { lease: { maxExecutionMs: 10_000 } }));
    await time.pass(5_000);
    expect(worker.eventsOf('slow_attempt')).toMatchObject([{ attempt: 1, fencingToken: 0 }]);
    expect(signal.aborted).toBe(false);
    await time.pass(10_000);
    expect(signal.aborted).toBe(true);
    expect(worker.reported).toEqual(['store_unavailable', 'unprotected', 'slow_attempt']);
  });

  it.each(['complete', 'release'] as const)('does not abort after %s', async (end) => {
    const attempt = await unprotected();
    const { signal } = attempt;
    await (end === 'complete' ? attempt.complete(success('paid')) : attempt.release());
    await time.pass(20_000);
    expect(signal.aborted).toBe(false);
  });
});
