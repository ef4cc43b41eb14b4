import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { memoryUnderTest } from '../../conformance/memory-under-test.js';
import { redisUnderTest } from '../../conformance/redis-under-test.js';
import { until } from '../../support/waiting/until.js';
import {
  failure,
  outcomeAsText,
  newRequest,
  RETENTION_MS,
  success,
  withOptions,
  withOtherPayload,
  Worker,
} from '../../support/engine/worker.js';

const LEASE_MS = 60_000;
/** Long enough for the other attempt to settle; no test waits until it is over. */
const AS_LONG_AS_IT_TAKES = 20_000;

/**
 * The second table of the protocol. These tests drive the store's clock, by which leases and retentions end.
 * Two workers are two engines.
 */
describe.each([memoryUnderTest, redisUnderTest])('an attempt on $name', (underTest) => {
  let harness: Awaited<ReturnType<typeof underTest.create>>;
  let passTime: (ms: number) => Promise<void> | void;
  let one: Worker;
  let other: Worker;
  const operationRequest = () =>
    newRequest({ lease: { durationMs: LEASE_MS }, duplicates: { timeoutMs: AS_LONG_AS_IT_TAKES } });

  beforeEach(async () => {
    harness = await underTest.create();
    const { clock } = harness;
    if (clock === undefined) throw new Error('these tests drive the clock');
    passTime = (ms) => clock.step(ms);
    one = new Worker(harness.store);
    other = new Worker(harness.store);
  });
  afterEach(() => harness.dispose?.());

  /** The first attempt outlives its lease, the second one takes over. */
  async function overtaken(request = operationRequest()) {
    const late = await one.run(request);
    await passTime(LEASE_MS);
    const taker = await other.run(request);
    return { request, late, taker };
  }

  describe('whose request is the first', () => {
    it('runs, and its outcome is replayed to every retry', async () => {
      const request = operationRequest();
      const attempt = await one.run(request);
      expect(attempt).toMatchObject({ number: 1, isTakeover: false, isProtected: true });
      expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
      for (const worker of [one, other, other]) {
        const decision = await worker.begin(request);
        expect(outcomeAsText(decision)).toEqual({
          kind: 'replay',
          state: 'completed',
          outcome: 'paid',
        });
      }
      expect(one.reported).toEqual(['acquired', 'completed', 'replayed']);
      expect(other.reported).toEqual(['replayed', 'replayed']);
      expect(one.events[1]).toMatchObject({ state: 'completed', late: false, attempt: 1 });
    });

    it('that failed and is kept is replayed as a failure', async () => {
      const request = operationRequest();
      const attempt = await one.run(request);
      expect(await attempt.complete(failure('declined'))).toEqual({ kind: 'own' });
      const decision = await other.begin(request);
      expect(outcomeAsText(decision)).toEqual({
        kind: 'replay',
        state: 'failed',
        outcome: 'declined',
      });
      expect(other.events).toMatchObject([{ type: 'replayed', state: 'failed' }]);
    });

    it('that failed and is released can run again at once, as the next attempt', async () => {
      const request = operationRequest();
      const first = await one.run(request);
      await first.release();
      const second = await other.run(request);
      expect(second).toMatchObject({ number: 2, isTakeover: false });
      expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
      expect(one.reported).toEqual(['acquired', 'released']);
      expect(other.reported).toEqual(['acquired']);
    });
  });

  describe('with a concurrent duplicate', () => {
    it('is not disturbed: the duplicate gets in progress, or mismatch for another payload', async () => {
      const request = operationRequest();
      const attempt = await one.run(request);
      expect(await other.begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
      expect(await other.begin(withOtherPayload(request))).toEqual({
        kind: 'reject',
        reason: 'mismatch',
      });
      expect(other.events).toMatchObject([
        { type: 'rejected', reason: 'in_progress' },
        { type: 'rejected', reason: 'mismatch' },
      ]);
      expect(other.store.sent.map(({ step }) => step)).toEqual(['begin', 'begin']);
      expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
    });
  });

  describe('whose lease ran out', () => {
    it('stores its outcome when there was no takeover', async () => {
      const request = operationRequest();
      const attempt = await one.run(request);
      await passTime(LEASE_MS + 1);
      expect(await attempt.complete(success('late'))).toEqual({ kind: 'own' });
      expect(one.eventsOf('completed')).toMatchObject([{ late: true, state: 'completed' }]);
      expect(outcomeAsText(await other.begin(request))).toMatchObject({ outcome: 'late' });
    });

    it('is taken over by the next one, which is marked as a takeover', async () => {
      const { late, taker } = await overtaken();
      expect(taker).toMatchObject({ number: 2, isTakeover: true });
      expect(taker.fencingToken).toBeGreaterThan(late.fencingToken);
      expect(other.events).toMatchObject([
        { type: 'takeover', attempt: 2, fencingToken: taker.fencingToken },
      ]);
      expect(await taker.complete(success('taken over'))).toEqual({ kind: 'own' });
    });

    it('returns the stored success of the other attempt: superseded [P11]', async () => {
      const { request, late, taker } = await overtaken();
      await taker.complete(success('the taker’s'));
      const settlement = await late.complete(success('the late one’s'));
      expect(outcomeAsText(settlement)).toEqual({
        kind: 'other',
        state: 'completed',
        outcome: 'the taker’s',
      });
      expect(one.reported).toEqual(['acquired', 'superseded']);
      expect(outcomeAsText(await one.begin(request))).toMatchObject({ outcome: 'the taker’s' });
    });

    it('returns the stored failure of the other attempt and reports that outcomes diverged [P50]', async () => {
      const { late, taker } = await overtaken();
      await taker.complete(failure('declined'));
      const settlement = await late.complete(success('paid'));
      expect(outcomeAsText(settlement)).toEqual({
        kind: 'other',
        state: 'failed',
        outcome: 'declined',
      });
      expect(one.reported).toEqual(['acquired', 'outcome_diverged']);
    });

    it('waits for the attempt that took over, and returns its outcome [P49]', async () => {
      const { late, taker } = await overtaken();
      const settlement = late.complete(success('the late one’s'));
      await until(() => one.store.sentOf('complete').length > 1);
      await taker.complete(success('the taker’s'));
      expect(outcomeAsText(await settlement)).toEqual({
        kind: 'other',
        state: 'completed',
        outcome: 'the taker’s',
      });
      expect(one.reported).toEqual(['acquired', 'superseded']);
    });

    it('stores its outcome when the attempt that took over releases the key', async () => {
      const { request, late, taker } = await overtaken();
      const settlement = late.complete(success('the late one’s'));
      await until(() => one.store.sentOf('complete').length > 1);
      await taker.release();
      expect(await settlement).toEqual({ kind: 'own' });
      expect(one.reported).toEqual(['acquired', 'completed']);
      expect(one.eventsOf('completed')).toMatchObject([{ late: true }]);
      expect(outcomeAsText(await other.begin(request))).toMatchObject({
        outcome: 'the late one’s',
      });
    });

    it('does not store a failure over another attempt’s effect: reports it, and the key is free', async () => {
      const { request, late, taker } = await overtaken();
      const settlement = late.complete(failure('declined'));
      await until(() => one.store.sentOf('complete').length > 1);
      await taker.release();
      expect(await settlement).toEqual({ kind: 'own' });
      expect(one.reported).toEqual(['acquired', 'outcome_diverged']);
      expect(await other.run(request)).toMatchObject({ number: 3 });
    });

    it('returns in progress when the attempt that took over does not end', async () => {
      const { late } = await overtaken(
        withOptions(operationRequest(), { duplicates: { timeoutMs: 150 } }),
      );
      expect(await late.complete(success('the late one’s'))).toEqual({ kind: 'in_progress' });
      expect(one.reported).toEqual(['acquired', 'outcome_diverged']);
    });

    it('does not release the record of another attempt', async () => {
      const { request, late, taker } = await overtaken();
      await late.release();
      expect(one.reported).not.toContain('released');
      expect(await one.begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
      expect(await taker.complete(success('paid'))).toEqual({ kind: 'own' });
    });
  });

  describe('whose key was released after a takeover and reused for another payload', () => {
    const unknown = { kind: 'unknown' };

    it.each([
      [success('paid'), success('of another')],
      [success('paid'), failure('of another')],
      [failure('declined'), success('of another')],
    ])('does not get that outcome: unknown (%#) [P51]', async (own, theirs) => {
      const { request, late, taker } = await overtaken();
      await taker.release();
      const reused = withOtherPayload(request);
      await (await other.run(reused)).complete(theirs);
      expect(await late.complete(own)).toEqual(unknown);
      expect(one.reported).toEqual(['acquired', 'outcome_diverged']);
      expect(outcomeAsText(await one.begin(reused))).toMatchObject({ outcome: 'of another' });
    });

    it('does not get it after it has waited for its end either', async () => {
      const { request, late, taker } = await overtaken();
      await taker.release();
      const running = await other.run(withOtherPayload(request));
      const settlement = late.complete(success('paid'));
      await until(() => one.store.sentOf('complete').length > 1);
      await running.complete(success('of another'));
      expect(await settlement).toEqual(unknown);
      expect(one.reported).toEqual(['acquired', 'outcome_diverged']);
    });

    it('stores its outcome when the other one releases the key: its effect did happen', async () => {
      const { request, late, taker } = await overtaken();
      await taker.release();
      const running = await other.run(withOtherPayload(request));
      const settlement = late.complete(success('paid'));
      await until(() => one.store.sentOf('complete').length > 1);
      await running.release();
      expect(await settlement).toEqual({ kind: 'own' });
      expect(outcomeAsText(await other.begin(request))).toMatchObject({ outcome: 'paid' });
    });
  });

  describe('with onTakeover: reject', () => {
    it('never runs again: the outcome is unknown until the late owner stores it', async () => {
      const request = withOptions(operationRequest(), { lease: { onTakeover: 'reject' } });
      const late = await one.run(request);
      await passTime(LEASE_MS);
      const unknown = { kind: 'reject', reason: 'outcome_unknown' };
      expect(await other.begin(request)).toEqual(unknown);
      await passTime(100 * LEASE_MS);
      expect(await other.begin(request)).toEqual(unknown);
      expect(await late.complete(success('paid'))).toEqual({ kind: 'own' });
      expect(outcomeAsText(await other.begin(request))).toMatchObject({ outcome: 'paid' });
      expect(other.reported).toEqual(['rejected', 'rejected', 'replayed']);
    });
  });

  describe('whose record vanished', () => {
    it('restores its outcome, returns it, and reports the loss', async () => {
      const request = operationRequest();
      const attempt = await one.run(request);
      await passTime(2 * RETENTION_MS);
      expect(await attempt.complete(success('paid'))).toEqual({ kind: 'own' });
      expect(one.reported).toEqual(['acquired', 'record_lost', 'completed']);
      expect(outcomeAsText(await other.begin(request))).toMatchObject({ outcome: 'paid' });
    });

    it('does not restore a failure: returns it, reports the loss, and the key is free [P53]', async () => {
      const request = operationRequest();
      const attempt = await one.run(request);
      await passTime(2 * RETENTION_MS);
      expect(await attempt.complete(failure('declined'))).toEqual({ kind: 'own' });
      expect(one.reported).toEqual(['acquired', 'record_lost', 'save_failed']);
      expect(await other.run(request)).toMatchObject({ number: 1 });
    });

    it('detects it at the next heartbeat: the signal aborts and events are emitted [P15]', async () => {
      const attempt = await one.run(newRequest({ lease: { durationMs: 900 } }));
      const { signal } = attempt;
      await passTime(2 * RETENTION_MS);
      await until(() => signal.aborted);
      expect(signal.reason).toBe('gone');
      expect(one.reported).toEqual(['acquired', 'lease_lost', 'record_lost']);
      expect(one.eventsOf('lease_lost')).toMatchObject([{ reason: 'gone' }]);
    });
  });

  describe('that was taken over', () => {
    it('detects it at the next heartbeat', async () => {
      const request = newRequest({ lease: { durationMs: 900 } });
      const { signal } = await one.run(request);
      await passTime(900);
      await other.run(request);
      await until(() => signal.aborted);
      expect(signal.reason).toBe('lost');
      expect(one.reported).toEqual(['acquired', 'lease_lost']);
    });
  });

  it('emits all events with one operation and one record key, which is the digest', async () => {
    const request = operationRequest();
    const { late, taker } = await overtaken(request);
    await taker.complete(success('paid'));
    await late.complete(success('paid'));
    await other.begin(request);
    const subjects = [...one.events, ...other.events].map(({ operation, recordKey }) =>
      JSON.stringify([operation, recordKey]),
    );
    expect(new Set(subjects)).toEqual(new Set([JSON.stringify(['pay', request.recordKey])]));
    expect(JSON.stringify([one.events, other.events])).not.toContain(request.key);
  });
});
