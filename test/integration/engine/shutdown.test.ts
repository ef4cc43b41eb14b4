import { describe, expect, it } from '@jest/globals';
import {
  heldReply,
  heldRequest,
  lostReply,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { Gate } from '../../support/waiting/gate.js';
import { inFakeTime } from './support/in-fake-time.js';
import { outcomeAsText, newRequest, success, type Worker } from '../../support/engine/worker.js';

const SHUTDOWN_TIMEOUT_MS = 10_000;
const SHUTTING_DOWN = { kind: 'reject', reason: 'shutting_down' };

const time = inFakeTime();

function drain(worker: Worker) {
  const state: { left?: number; at?: number } = {};
  void worker.engine.drain().then((left) => Object.assign(state, { left, at: time.elapsed }));
  return state;
}

describe('a process that shuts down', () => {
  it('finishes at once when nothing is running', async () => {
    const drained = drain(time.worker());
    await time.pass(0);
    expect(drained).toEqual({ left: 0, at: 0 });
  });

  it('begins nothing more, and sends nothing to the store', async () => {
    const worker = time.worker();
    drain(worker);
    expect(await worker.begin(newRequest())).toEqual(SHUTTING_DOWN);
    expect(worker.store.sent).toEqual([]);
    expect(worker.events).toMatchObject([{ type: 'rejected', reason: 'shutting_down' }]);
  });

  it('waits for running operations, keeps their heartbeats, and stores their outcomes [P44]', async () => {
    const worker = time.worker();
    const request = newRequest({ lease: { durationMs: 1_000 } });
    const attempt = await worker.run(request);
    const drained = drain(worker);
    await time.pass(5_000);
    expect(drained).toEqual({});
    expect(attempt.signal.aborted).toBe(false);
    expect(await time.worker().begin(request)).toMatchObject({ reason: 'in_progress' });
    await attempt.complete(success('paid'));
    await time.pass(20);
    expect(drained.left).toBe(0);
    expect(outcomeAsText(await time.worker().begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('waits for an operation that ends with a release', async () => {
    const worker = time.worker();
    const request = newRequest();
    const attempt = await worker.run(request);
    const gate = Gate.closed();
    worker.store.next('release', heldReply(gate));
    const drained = drain(worker);
    void attempt.release();
    await time.pass(200);
    expect(drained).toEqual({});
    gate.open();
    await time.pass(20);
    expect(drained.left).toBe(0);
    expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('waits for outcomes that are being saved in the background', async () => {
    const worker = time.worker();
    const request = newRequest();
    const attempt = await worker.run(request);
    worker.store.always(unavailable, 'complete');
    const settled = attempt.complete(success('paid'));
    await time.pass(1_001);
    expect(await settled).toEqual({ kind: 'own' });
    const drained = drain(worker);
    await time.pass(5_000);
    expect(drained).toEqual({});
    worker.store.heal();
    await time.pass(1_020);
    expect(drained.left).toBe(0);
    expect(outcomeAsText(await time.worker().begin(request))).toMatchObject({ outcome: 'paid' });
  });

  it('gives up after shutdownTimeoutMs and returns how many are left: their leases expire', async () => {
    const worker = time.worker();
    const requests = [newRequest(), newRequest(), newRequest()];
    for (const request of requests) await worker.run(request);
    const drained = drain(worker);
    await time.pass(SHUTDOWN_TIMEOUT_MS - 1);
    expect(drained).toEqual({});
    await time.pass(25);
    expect(drained.left).toBe(3);
    expect(worker.store.sentOf('release')).toEqual([]);
  });

  it('does not wait when shutdownTimeoutMs is 0', async () => {
    const worker = time.worker({ shutdownTimeoutMs: 0 });
    await worker.run(newRequest());
    const drained = drain(worker);
    await time.pass(0);
    expect(drained).toEqual({ left: 1, at: 0 });
  });

  it('stops waiting for the attempt that took over when it gives up', async () => {
    const worker = time.worker({ shutdownTimeoutMs: 1_000 });
    const request = newRequest({ lease: { durationMs: 1_000 }, duplicates: { timeoutMs: 60_000 } });
    const attempt = await worker.run(request);
    worker.store.always(unavailable, 'extend');
    await time.pass(1_000);
    await time.worker().run(request);
    let settlement: object | undefined;
    void attempt.complete(success('paid')).then((result) => (settlement = result));
    drain(worker);
    await time.pass(2_100);
    expect(settlement).toEqual({ kind: 'in_progress' });
    expect(worker.reported.at(-1)).toBe('outcome_diverged');
  });
});

describe('a begin in flight when the shutdown starts', () => {
  it.each([
    ['request', heldRequest],
    ['reply', heldReply],
  ])('does not run, and releases its key, however late its %s is [P44]', async (_, held) => {
    const worker = time.worker();
    const request = newRequest();
    const gate = Gate.closed();
    worker.store.next('begin', held(gate));
    const decision = worker.begin(request);
    const drained = drain(worker);
    await time.pass(100);
    gate.open();
    expect(await decision).toEqual(SHUTTING_DOWN);
    await time.pass(20);
    expect(drained.left).toBe(0);
    expect(worker.store.sentOf('release')).toHaveLength(1);
    const other = await time.worker().begin(request);
    expect(other).toMatchObject({ kind: 'run', attempt: { number: 2, isTakeover: false } });
  });

  it('is waited for, so that the store is not closed before it is released', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    worker.store.next('begin', heldReply(gate));
    const decision = worker.begin(newRequest());
    const drained = drain(worker);
    await time.pass(200);
    expect(drained).toEqual({});
    gate.open();
    await decision;
    await time.pass(20);
    expect(drained.left).toBe(0);
  });

  it('is waited for until its key is released, if its reply is lost', async () => {
    const worker = time.worker();
    const request = newRequest();
    const gate = Gate.closed();
    worker.store.next('begin', lostReply);
    worker.store.next('release', heldRequest(gate));
    await worker.begin(request);
    const drained = drain(worker);
    await time.pass(200);
    expect(drained).toEqual({});
    gate.open();
    await time.pass(20);
    expect(drained.left).toBe(0);
    expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('does not run while the shutdown waits for others', async () => {
    const worker = time.worker();
    const running = await worker.run(newRequest());
    const gate = Gate.closed();
    worker.store.next('begin', heldReply(gate));
    const request = newRequest();
    const decision = worker.begin(request);
    const drained = drain(worker);
    gate.open();
    expect(await decision).toEqual(SHUTTING_DOWN);
    expect(worker.reported).toEqual(['acquired', 'acquired', 'released', 'rejected']);
    expect(await time.worker().run(request)).toMatchObject({ number: 2 });
    await running.complete(success('paid'));
    await time.pass(20);
    expect(drained.left).toBe(0);
  });
});
