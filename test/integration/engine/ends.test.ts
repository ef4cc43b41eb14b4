import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { CompleteReply, ReleaseReply } from 'nestjs-idempotency/store';
import { memoryUnderTest } from '../../conformance/memory-under-test.js';
import { redisUnderTest } from '../../conformance/redis-under-test.js';
import { expectNoTimerRenewed } from '../../support/clocks/standing-clock.js';
import { type AttemptEnd, endsOf, wrongEnds } from '../../support/engine/attempt-ends.js';
import {
  failure,
  newRequest,
  outcomeAsText,
  outcomeOf,
  RETENTION_MS,
  success,
  withOptions,
  withOtherPayload,
  Worker,
} from '../../support/engine/worker.js';
import type { Attempt, ProtocolOptions } from '../../support/internals/core.js';
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
import { until } from '../../support/waiting/until.js';
import { inFakeTime } from './support/in-fake-time.js';

const LEASE_MS = 3_000;

const SAVE_TIMEOUT_MS = 1_000;

describe('an attempt has ended once', () => {
  const MAX_EXECUTION_MS = 20_000;

  const OPTIONS = {
    lease: { duration: LEASE_MS, maxExecution: MAX_EXECUTION_MS },
    duplicates: { timeout: 500 },
    storeErrors: { saveTimeout: SAVE_TIMEOUT_MS, whenUnavailable: 'execute' },
  } as const;

  /** What a reply has besides its kind. */
  const DETAILS = { state: 'completed', outcome: outcomeOf('another'), fence: 9 } as const;

  const COMPLETE_ENDS: Readonly<Record<CompleteReply['kind'], AttemptEnd>> = {
    ok: 'completed',
    ok_late: 'completed',
    already: 'completed',
    superseded: 'superseded',
    lost: 'diverged',
    restored: 'completed',
    gone: 'unsaved',
  };

  const RELEASE_ENDS: Readonly<Record<ReleaseReply['kind'], AttemptEnd>> = {
    ok: 'released',
    already: 'released',
    gone: 'released',
    lost: 'given_up',
    not_in_progress: 'given_up',
  };

  interface Way {
    readonly name: string;
    readonly how: AttemptEnd;
    /** What the store replies to complete and release. */
    readonly reply: Fault;
    readonly end: (attempt: Attempt) => unknown;
  }

  const replies =
    (reply: object): Fault =>
    <Reply>() =>
      Promise.resolve(reply as Reply);

  const paid = (attempt: Attempt) => attempt.complete(success('paid'));
  const declined = (attempt: Attempt) => attempt.complete(failure('declined'));
  const release = (attempt: Attempt) => attempt.release();

  /** The replies of the store, and none. */
  const COMPLETIONS = Object.entries(COMPLETE_ENDS).flatMap(([kind, how]): Way[] => {
    const ways = { name: `complete: ${kind}`, reply: replies({ ...DETAILS, kind }) };
    return [
      { ...ways, how, end: paid },
      {
        ...ways,
        name: `${ways.name}, a failure`,
        how: how === 'completed' ? 'failed' : how,
        end: declined,
      },
      {
        ...ways,
        name: `${ways.name}, recovered`,
        how: how === 'completed' ? 'recovered' : how,
        end: (attempt) => {
          attempt.recovered();
          return paid(attempt);
        },
      },
    ];
  });
  const DIVERGED: Way = {
    name: 'complete: superseded by a failure',
    how: 'diverged',
    reply: replies({ ...DETAILS, kind: 'superseded', state: 'failed' }),
    end: paid,
  };
  const OVERTAKEN: Way = {
    name: 'complete: lost, to an attempt that has not ended',
    how: 'diverged',
    reply: replies({ ...DETAILS, kind: 'lost', state: 'in_progress' }),
    end: paid,
  };
  const UNSAVED: Way = { name: 'complete: none', how: 'unsaved', reply: unavailable, end: paid };
  const RELEASES = Object.entries(RELEASE_ENDS).map(([kind, how]): Way => {
    return { name: `release: ${kind}`, how, reply: replies({ kind }), end: release };
  });
  const GIVEN_UP: Way = {
    name: 'release: none',
    how: 'given_up',
    reply: unavailable,
    end: release,
  };

  const WAYS = [...COMPLETIONS, DIVERGED, OVERTAKEN, UNSAVED, ...RELEASES, GIVEN_UP];

  const time = inFakeTime();

  /** @param delayMs - the store is unavailable this long at first. */
  async function ended({ reply, end }: Way, delayMs: number, isProtected = true) {
    const worker = time.worker();
    if (!isProtected) worker.store.always(unavailable, 'begin');
    const attempt = await worker.run(newRequest(OPTIONS));
    expect([...worker.engine.running()]).toEqual([attempt]);
    worker.store.always(delayMs === 0 ? reply : unavailable, 'complete', 'release');
    void end(attempt);
    await time.pass(delayMs);
    worker.store.always(reply, 'complete', 'release');
    await time.pass(2 * MAX_EXECUTION_MS);
    expect([...worker.engine.running()]).toEqual([]);
    expect(wrongEnds(worker.events)).toEqual([]);
    return endsOf(worker.events);
  }

  it.each(WAYS)('$how, with the reply to $name', async (way) => {
    expect(await ended(way, 0)).toEqual([way.how]);
  });

  it.each(WAYS)('$how, with the late reply to $name', async (way) => {
    const isSaved = way.end !== release;
    expect(await ended(way, isSaved ? 2 * SAVE_TIMEOUT_MS : SAVE_TIMEOUT_MS / 2)).toEqual([
      way.how,
    ]);
  });

  it.each(WAYS)('without a record: $how, with the reply to $name', async (way) => {
    // The record is another attempt's, which has ended.
    const isFree = way.name === 'release: not_in_progress';
    expect(await ended(way, 0, false)).toEqual([isFree ? 'released' : way.how]);
  });

  it('as not started, when the process stops before it runs', async () => {
    const worker = time.worker();
    const gate = Gate.closed();
    worker.store.next('begin', heldReply(gate));
    const deciding = worker.begin(newRequest(OPTIONS));
    const drained = worker.engine.drain();
    gate.open();
    expect(await deciding).toMatchObject({ kind: 'reject', reason: 'shutting_down' });
    await time.pass(100);
    expect(await drained).toBe(0);
    expect(endsOf(worker.events)).toEqual(['not_started']);
    expect(worker.reported).toEqual(['acquired', 'released', 'rejected']);
    expect(wrongEnds(worker.events)).toEqual([]);
  });

  it.each([
    ['is confirmed', undefined, ['acquired', 'released']],
    ['gets no reply', unavailable, ['acquired', 'release_failed']],
  ] as const)(
    'as not started, when its lease is not confirmed and its release %s',
    async (_, fault, story) => {
      const worker = time.worker();
      const gate = Gate.closed();
      worker.store.next('begin', heldReply(gate));
      worker.store.always(unavailable, 'extend');
      if (fault !== undefined) worker.store.always(fault, 'release');
      const deciding = worker.begin(newRequest(OPTIONS));
      await time.pass(LEASE_MS - 1);
      gate.open();
      await time.pass(2 * SAVE_TIMEOUT_MS);
      expect(await deciding).toMatchObject({ kind: 'reject', reason: 'store_unavailable' });
      expect(endsOf(worker.events)).toEqual(['not_started']);
      expect(worker.reported).toEqual([...story, 'store_unavailable', 'rejected']);
      expect(wrongEnds(worker.events)).toEqual([]);
    },
  );

  it('after its story, with its duration and the bytes of its outcome', async () => {
    const worker = time.worker();
    const request = { ...newRequest(OPTIONS), transport: 'call' } as const;
    const attempt = await worker.run(request);
    await time.pass(250);
    await attempt.complete(success('päid'));
    const { operation, recordKey, transport } = request;
    const { fencingToken } = attempt;
    const bytes = Buffer.byteLength(outcomeOf('päid').header) + Buffer.byteLength('päid');
    const subject = { operation, transport, recordKey, attempt: 1, fencingToken };
    expect(worker.events.slice(1)).toEqual([
      { type: 'completed', ...subject, state: 'completed', late: false, durationMs: 250, bytes },
      { type: 'ended', ...subject, how: 'completed', durationMs: 250, bytes },
    ]);
  });
});

describe('saves', () => {
  const MAX_EXECUTION_MS = 60_000;
  const OPTIONS = {
    lease: { duration: LEASE_MS, maxExecution: MAX_EXECUTION_MS },
    storeErrors: { saveTimeout: SAVE_TIMEOUT_MS },
  };

  const time = inFakeTime();

  async function running(options: ProtocolOptions = {}) {
    const worker = time.worker();
    const request = newRequest(OPTIONS, options);
    return { worker, request, attempt: await worker.run(request) };
  }

  describe('saving an outcome', () => {
    /** Resolves to the settlement and its time. */
    function timed<Result>(settling: Promise<Result>) {
      return settling.then((settlement) => ({ settlement, at: time.elapsed }));
    }

    it.each([
      ['the request', lostRequest],
      ['the reply', lostReply],
    ])('is retried when %s was lost, and the response waits for it', async (_, fault) => {
      const { worker, attempt } = await running();
      worker.store.next('complete', fault, unavailable);
      const settled = timed(attempt.complete(success('paid')));
      await time.pass(SAVE_TIMEOUT_MS);
      const { settlement, at } = await settled;
      expect(settlement).toEqual({ kind: 'own' });
      expect(at).toBeGreaterThan(0);
      expect(worker.reported).toEqual(['acquired', 'completed']);
      expect(worker.eventsOf('completed')).toMatchObject([{ late: false }]);
    });

    it('sends the same command every time', async () => {
      const { worker, attempt } = await running();
      worker.store.next('complete', unavailable, lostRequest);
      void attempt.complete(success('paid'));
      await time.pass(SAVE_TIMEOUT_MS);
      const [first, ...copies] = worker.store.sentOf('complete');
      expect(copies).toHaveLength(2);
      for (const { token, fence, command } of copies) {
        expect({ token, fence }).toEqual({ token: first!.token, fence: first!.fence });
        expect(command).toMatchObject({ ...first!.command, timeoutMs: expect.any(Number) });
      }
    });

    it('never exceeds the time left for the response', async () => {
      const { worker, attempt } = await running({ storeErrors: { commandTimeout: 700 } });
      worker.store.always(unavailable, 'complete');
      void attempt.complete(success('paid'));
      await time.pass(SAVE_TIMEOUT_MS - 1);
      const [first, ...later] = worker.store.sentOf('complete');
      expect(first!.command.timeoutMs).toBe(700);
      expect(later.length).toBeGreaterThan(1);
      for (const { at, command } of later) {
        const left = SAVE_TIMEOUT_MS - (at - first!.at);
        expect(command.timeoutMs).toBe(Math.ceil(Math.min(700, left)));
      }
    });

    describe('while the store is down', () => {
      it("returns the outcome after saveTimeout with whenNotSaved: 'respond'", async () => {
        const { worker, attempt } = await running();
        worker.store.always(unavailable, 'complete');
        const settled = timed(attempt.complete(success('paid')));
        await time.pass(SAVE_TIMEOUT_MS - 1);
        expect(worker.reported).toEqual(['acquired']);
        await time.pass(2);
        expect(worker.reported).toEqual(['acquired', 'save_delayed']);
        expect((await settled).settlement).toEqual({ kind: 'own' });
      });

      it("returns unsaved after saveTimeout with whenNotSaved: 'error'", async () => {
        const { worker, attempt } = await running({ storeErrors: { whenNotSaved: 'error' } });
        worker.store.always(unavailable, 'complete');
        const settled = timed(attempt.complete(success('paid')));
        await time.pass(SAVE_TIMEOUT_MS + 1);
        expect((await settled).settlement).toEqual({ kind: 'unsaved' });
        expect(worker.reported).toEqual(['acquired', 'save_delayed']);
      });

      it('also retries after a configuration error: the effect has happened', async () => {
        const { worker, attempt } = await running();
        worker.store.next('complete', misconfigured);
        const settled = timed(attempt.complete(success('paid')));
        await time.pass(SAVE_TIMEOUT_MS);
        expect((await settled).settlement).toEqual({ kind: 'own' });
        expect(worker.reported).toEqual(['acquired', 'completed']);
      });
    });

    describe.each(['respond', 'error'] as const)(
      'continues in the background with %s',
      (whenNotSaved) => {
        async function unsaved() {
          const { worker, request, attempt } = await running({ storeErrors: { whenNotSaved } });
          worker.store.always(unavailable, 'complete');
          void attempt.complete(success('paid'));
          await time.pass(SAVE_TIMEOUT_MS + 1);
          return { worker, request };
        }

        it('until the store is back', async () => {
          const { worker, request } = await unsaved();
          await time.pass(5 * LEASE_MS);
          expect(worker.reported).toEqual(['acquired', 'save_delayed']);
          worker.store.heal();
          await time.pass(LEASE_MS);
          expect(worker.reported).toEqual(['acquired', 'save_delayed', 'completed']);
          expect(worker.eventsOf('completed')).toMatchObject([{ late: true }]);
          expect(outcomeAsText(await time.worker().begin(request))).toMatchObject({
            outcome: 'paid',
          });
          await expectNoTimerRenewed(time.clock);
        });

        it('with heartbeats, so that no duplicate runs', async () => {
          const { request } = await unsaved();
          const other = time.worker();
          for (let leases = 0; leases < 5; leases += 1) {
            await time.pass(LEASE_MS);
            expect(await other.begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
          }
        });

        it('until the hard deadline, then emits save_failed', async () => {
          const { worker, request } = await unsaved();
          await time.pass(MAX_EXECUTION_MS - time.elapsed - 1);
          expect(worker.reported).not.toContain('save_failed');
          await time.pass(2_000);
          expect(worker.reported).toContain('save_failed');
          await expectNoTimerRenewed(time.clock);
          expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: true });
        });

        it('until the shutdown times out', async () => {
          const { worker } = await unsaved();
          const drained = timed(worker.engine.drain());
          await time.pass(9_900);
          expect(worker.reported).not.toContain('save_failed');
          await time.pass(2_000);
          expect((await drained).settlement).toBe(1);
          expect(worker.reported).toContain('save_failed');
          const { length } = worker.store.sent;
          await time.pass(MAX_EXECUTION_MS);
          expect(worker.store.sent).toHaveLength(length);
        });

        it('until it finds another attempt’s outcome', async () => {
          const { worker, request } = await unsaved();
          // The heartbeats fail as well: the lease runs out, and another process takes over.
          worker.store.always(unavailable, 'complete', 'extend');
          await time.pass(2 * LEASE_MS);
          const taker = await time.worker().run(request);
          expect(taker.isTakeover).toBe(true);
          await taker.complete(success('paid twice'));
          worker.store.heal();
          await time.pass(LEASE_MS);
          expect(worker.reported.at(-1)).toBe('superseded');
          expect(outcomeAsText(await worker.begin(request))).toMatchObject({
            outcome: 'paid twice',
          });
          await expectNoTimerRenewed(time.clock);
        });
      },
    );

    it('keeps the lease while it waits for the first confirmation', async () => {
      const { worker, request, attempt } = await running({ lease: { duration: 300 } });
      worker.store.always(unavailable, 'complete');
      void attempt.complete(success('paid'));
      await time.pass(900);
      expect(await time.worker().begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
    });

    it('sends nothing more once it is confirmed', async () => {
      const { worker, attempt } = await running();
      await attempt.complete(failure('declined'));
      await expectNoTimerRenewed(time.clock);
      expect(worker.store.sent.map(({ step }) => step)).toEqual(['begin', 'complete']);
    });
  });

  describe('waiting for the attempt that took over', () => {
    async function overtaken(timeoutMs: number) {
      const {
        worker: late,
        request,
        attempt,
      } = await running({ duplicates: { timeout: timeoutMs } });
      late.store.always(unavailable, 'extend');
      await time.pass(LEASE_MS + 1);
      late.store.heal();
      const taker = await time.worker().run(request);
      const startedAt = time.elapsed;
      const settled = attempt
        .complete(success('the late one’s'))
        .then((settlement) => ({ settlement, after: time.elapsed - startedAt }));
      return { settled, taker };
    }

    it.each([10_000, 1_700, 60])('ends after %d ms with duplicates.timeout', async (timeoutMs) => {
      const { settled } = await overtaken(timeoutMs);
      await time.pass(2 * timeoutMs + 2_000);
      const { settlement, after } = await settled;
      expect(settlement).toEqual({ kind: 'in_progress' });
      expect(after).toBeGreaterThanOrEqual(timeoutMs);
      // One command and one timer later, no more.
      expect(after).toBeLessThanOrEqual(timeoutMs + 5);
    });

    it('returns an outcome that arrives in its last half second', async () => {
      // Every pause has three quarters of its length: one of them would end after the deadline.
      const random = jest.spyOn(time.clock, 'random').mockReturnValue(0.5);
      const { settled, taker } = await overtaken(10_000);
      await time.pass(9_500);
      await taker.complete(success('the taker’s'));
      await time.pass(5_000);
      random.mockRestore();
      expect(outcomeAsText((await settled).settlement)).toMatchObject({ outcome: 'the taker’s' });
    });
  });

  describe('releasing a record', () => {
    it.each([
      ['the request', lostRequest],
      ['the reply', lostReply],
    ])('is retried when %s was lost', async (_, fault) => {
      const { worker, request, attempt } = await running();
      worker.store.next('release', unavailable, fault);
      const released = attempt.release();
      await time.pass(SAVE_TIMEOUT_MS);
      await released;
      expect(worker.reported).toEqual(['acquired', 'released']);
      expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
    });

    it('that is not confirmed delays the caller by at most saveTimeout; the lease expires by itself', async () => {
      const { worker, request, attempt } = await running();
      worker.store.always(unavailable, 'release');
      const released = attempt.release();
      await time.pass(SAVE_TIMEOUT_MS + 1);
      await released;
      expect(worker.reported).toEqual(['acquired', 'release_failed']);
      await expectNoTimerRenewed(time.clock);
      await time.pass(LEASE_MS);
      expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: true });
    });

    it('keeps the tombstone for the retention', async () => {
      const { worker, attempt } = await running({ outcome: { retention: 1_234 } });
      await attempt.release();
      expect(worker.store.sentOf('release')).toMatchObject([{ command: { tombstoneMs: 1_234 } }]);
    });
  });
});

describe('settlements', () => {
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
      newRequest({
        lease: { duration: LEASE_MS },
        duplicates: { timeout: AS_LONG_AS_IT_TAKES },
      });

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
        expect(await settlement).toEqual({ kind: 'own', isLost: true });
        expect(one.reported).toEqual(['acquired', 'outcome_diverged']);
        expect(await other.run(request)).toMatchObject({ number: 3 });
      });

      it('returns in progress when the attempt that took over does not end', async () => {
        const { late } = await overtaken(
          withOptions(operationRequest(), { duplicates: { timeout: 150 } }),
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
        expect(await attempt.complete(failure('declined'))).toEqual({ kind: 'own', isLost: true });
        expect(one.reported).toEqual(['acquired', 'record_lost', 'save_failed']);
        expect(await other.run(request)).toMatchObject({ number: 1 });
      });

      it('detects it at the next heartbeat: the signal aborts and events are emitted [P15]', async () => {
        const attempt = await one.run(newRequest({ lease: { duration: 900 } }));
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
        const request = newRequest({ lease: { duration: 900 } });
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
});

describe('shutdown', () => {
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
      const request = newRequest({ lease: { duration: 1_000 } });
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

    it('gives up after shutdownTimeout and returns how many are left: their leases expire', async () => {
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

    it('does not wait when shutdownTimeout is 0', async () => {
      const worker = time.worker({ shutdownTimeout: 0 });
      await worker.run(newRequest());
      const drained = drain(worker);
      await time.pass(0);
      expect(drained).toEqual({ left: 1, at: 0 });
    });

    it('stops waiting for the attempt that took over when it gives up', async () => {
      const worker = time.worker({ shutdownTimeout: 1_000 });
      const request = newRequest({
        lease: { duration: 1_000 },
        duplicates: { timeout: 60_000 },
      });
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
      // It is waited for, so that the store is not closed before it is released.
      expect(drained).toEqual({});
      gate.open();
      expect(await decision).toEqual(SHUTTING_DOWN);
      await time.pass(20);
      expect(drained.left).toBe(0);
      expect(worker.store.sentOf('release')).toHaveLength(1);
      const other = await time.worker().begin(request);
      expect(other).toMatchObject({ kind: 'run', attempt: { number: 2, isTakeover: false } });
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
});
