import { describe, expect, it } from '@jest/globals';
import { lostReply, unavailable } from '../../support/faulty-store.js';
import { inFakeTime } from './support/in-fake-time.js';
import { failure, inWords, newClaim, success, withOtherPayload } from './support/worker.js';

const WAIT_TIMEOUT_MS = 10_000;
const LEASE_MS = 3_000;
const OPTIONS = {
  whenInProgress: 'wait',
  waitTimeoutMs: WAIT_TIMEOUT_MS,
  leaseMs: LEASE_MS,
} as const;
const IN_PROGRESS = { kind: 'reject', reason: 'in_progress' };

const time = inFakeTime();

/** What came of a promise so far. */
function watched<Result extends object>(promise: Promise<Result>) {
  const state: { result?: Result; at?: number } = {};
  void promise.then((result) => Object.assign(state, { result, at: time.elapsed }));
  return state;
}

describe('a duplicate that waits', () => {
  it.each([
    ['success', success('paid'), 'completed', 'paid'],
    ['kept failure', failure('declined'), 'failed', 'declined'],
  ])('gets the first one’s %s as soon as it is there', async (_, final, state, outcome) => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    const attempt = await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(5_000);
    expect(waiting.result).toBeUndefined();
    await attempt.complete(final);
    await time.pass(250);
    expect(inWords(waiting.result!)).toEqual({ kind: 'replay', state, outcome });
    expect(other.events).toMatchObject([
      { type: 'waited', waitedMs: waiting.at },
      { type: 'replayed', state },
    ]);
  });

  it('is rejected after all when waitTimeoutMs is over', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(WAIT_TIMEOUT_MS - 1);
    expect(waiting.result).toBeUndefined();
    await time.pass(5);
    expect(waiting.result).toEqual(IN_PROGRESS);
    expect(other.events).toMatchObject([
      { type: 'waited', waitedMs: waiting.at },
      { type: 'rejected', reason: 'in_progress' },
    ]);
  });

  it('runs itself when the first one lets go', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    const attempt = await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(1_000);
    await attempt.release();
    await time.pass(250);
    expect(waiting.result).toMatchObject({
      kind: 'run',
      attempt: { number: 2, isTakeover: false },
    });
    expect(other.told).toEqual(['acquired', 'waited']);
  });

  it('takes over when the first one died', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    await worker.run(request);
    worker.store.always(unavailable, 'extend');
    const waiting = watched(other.begin(request));
    await time.pass(LEASE_MS + 250);
    expect(waiting.result).toMatchObject({ kind: 'run', attempt: { number: 2, isTakeover: true } });
  });

  it('is one of many, and one of them runs when the first one lets go', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    const attempt = await worker.run(request);
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

  it('asks with one token, in pauses that grow', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    await worker.run(request);
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

  it('is not kept waiting for what can never succeed', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    await worker.run(request);
    const decision = await other.begin(withOtherPayload(request));
    expect(decision).toEqual({ kind: 'reject', reason: 'mismatch' });
    expect(other.told).toEqual(['rejected']);
  });

  it('goes on waiting while the store is down, and never runs beside the first one', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim({ ...OPTIONS, onStoreUnavailable: 'execute' });
    const attempt = await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(1_000);
    other.store.always(unavailable, 'begin');
    await time.pass(1_000);
    expect(waiting.result).toBeUndefined();
    await attempt.complete(success('paid'));
    other.store.heal();
    await time.pass(250);
    expect(inWords(waiting.result!)).toMatchObject({ kind: 'replay', outcome: 'paid' });
    // Told once, however often it looked.
    expect(other.told).toEqual(['store_unavailable', 'waited', 'replayed']);
  });

  it('frees what a begin without a reply may have acquired, when it stops waiting', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    const attempt = await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(1_000);
    other.store.always(lostReply, 'begin');
    await attempt.release();
    await time.pass(WAIT_TIMEOUT_MS);
    expect(waiting.result).toEqual(IN_PROGRESS);
    expect(await time.worker().run(request)).toMatchObject({ isTakeover: false });
  });

  it('ends with the process', async () => {
    const [worker, other] = [time.worker(), time.worker()];
    const request = newClaim(OPTIONS);
    await worker.run(request);
    const waiting = watched(other.begin(request));
    await time.pass(1_000);
    void other.engine.drain();
    await time.pass(250);
    expect(waiting.result).toEqual({ kind: 'reject', reason: 'shutting_down' });
  });

  it('finds room for maxWaiters of its kind, and is rejected at once where there is none', async () => {
    const [worker, other] = [time.worker(), time.worker({ maxWaiters: 2 })];
    const request = newClaim(OPTIONS);
    const attempt = await worker.run(request);
    const waiting = [watched(other.begin(request)), watched(other.begin(request))];
    await time.pass(0);
    expect(await other.begin(request)).toEqual(IN_PROGRESS);
    expect(other.told).toEqual(['rejected']);
    await attempt.complete(success('paid'));
    await time.pass(250);
    for (const { result } of waiting) expect(result).toMatchObject({ kind: 'replay' });

    const next = newClaim(OPTIONS);
    await worker.run(next);
    const later = watched(other.begin(next));
    await time.pass(1_000);
    expect(later.result).toBeUndefined();
  });

  it('finds no room where maxWaiters is 0', async () => {
    const [worker, other] = [time.worker(), time.worker({ maxWaiters: 0 })];
    const request = newClaim(OPTIONS);
    await worker.run(request);
    expect(await other.begin(request)).toEqual(IN_PROGRESS);
  });
});
