import { describe, expect, it, jest } from '@jest/globals';
import {
  lostReply,
  lostRequest,
  misconfigured,
  unavailable,
} from '../../support/stores/faulty-store.js';
import { inFakeTime } from './support/in-fake-time.js';
import {
  failure,
  outcomeAsText,
  newRequest,
  success,
  withOptions,
} from '../../support/engine/worker.js';
import { expectNoTimerRenewed } from '../../support/clocks/standing-clock.js';

const SAVE_TIMEOUT_MS = 1_000;
const LEASE_MS = 3_000;
const MAX_EXECUTION_MS = 60_000;
const OPTIONS = {
  lease: { durationMs: LEASE_MS, maxExecutionMs: MAX_EXECUTION_MS },
  storeErrors: { saveTimeoutMs: SAVE_TIMEOUT_MS },
};

describe('saving an outcome', () => {
  const time = inFakeTime();

  /** Resolves to the settlement and its time. */
  function timed<Result>(settling: Promise<Result>) {
    return settling.then((settlement) => ({ settlement, at: time.elapsed }));
  }

  it.each([
    ['the request', lostRequest],
    ['the reply', lostReply],
  ])('is retried when %s was lost, and the response waits for it', async (_, fault) => {
    const worker = time.worker();
    const attempt = await worker.run(newRequest(OPTIONS));
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
    const worker = time.worker();
    const attempt = await worker.run(newRequest(OPTIONS));
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
    const worker = time.worker();
    const attempt = await worker.run(
      newRequest(OPTIONS, { storeErrors: { commandTimeoutMs: 700 } }),
    );
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
    it("returns the outcome after saveTimeoutMs with whenNotSaved: 'respond'", async () => {
      const worker = time.worker();
      const attempt = await worker.run(newRequest(OPTIONS));
      worker.store.always(unavailable, 'complete');
      const settled = timed(attempt.complete(success('paid')));
      await time.pass(SAVE_TIMEOUT_MS - 1);
      expect(worker.reported).toEqual(['acquired']);
      await time.pass(2);
      expect(worker.reported).toEqual(['acquired', 'save_delayed']);
      expect((await settled).settlement).toEqual({ kind: 'own' });
    });

    it("returns unsaved after saveTimeoutMs with whenNotSaved: 'error'", async () => {
      const worker = time.worker();
      const attempt = await worker.run(
        newRequest(OPTIONS, { storeErrors: { whenNotSaved: 'error' } }),
      );
      worker.store.always(unavailable, 'complete');
      const settled = timed(attempt.complete(success('paid')));
      await time.pass(SAVE_TIMEOUT_MS + 1);
      expect((await settled).settlement).toEqual({ kind: 'unsaved' });
      expect(worker.reported).toEqual(['acquired', 'save_delayed']);
    });

    it('also retries after a configuration error: the effect has happened', async () => {
      const worker = time.worker();
      const attempt = await worker.run(newRequest(OPTIONS));
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
        const worker = time.worker();
        const request = newRequest(OPTIONS, { storeErrors: { whenNotSaved } });
        const attempt = await worker.run(request);
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
        expect(outcomeAsText(await worker.begin(request))).toMatchObject({ outcome: 'paid twice' });
        await expectNoTimerRenewed(time.clock);
      });
    },
  );

  it('keeps the lease while it waits for the first confirmation', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS, { lease: { durationMs: 300 } });
    const attempt = await worker.run(request);
    worker.store.always(unavailable, 'complete');
    void attempt.complete(success('paid'));
    await time.pass(900);
    expect(await time.worker().begin(request)).toEqual({ kind: 'reject', reason: 'in_progress' });
  });

  it('sends nothing more once it is confirmed', async () => {
    const worker = time.worker();
    const attempt = await worker.run(newRequest(OPTIONS));
    await attempt.complete(failure('declined'));
    await expectNoTimerRenewed(time.clock);
    expect(worker.store.sent.map(({ step }) => step)).toEqual(['begin', 'complete']);
  });
});

describe('waiting for the attempt that took over', () => {
  const time = inFakeTime();

  async function overtaken(timeoutMs: number) {
    const late = time.worker();
    const request = newRequest(OPTIONS, { duplicates: { timeoutMs } });
    const attempt = await late.run(request);
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

  it.each([10_000, 1_700, 60])('ends after %d ms with duplicates.timeoutMs', async (timeoutMs) => {
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
  const time = inFakeTime();

  it.each([
    ['the request', lostRequest],
    ['the reply', lostReply],
  ])('is retried when %s was lost', async (_, fault) => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    const attempt = await worker.run(request);
    worker.store.next('release', unavailable, fault);
    const released = attempt.release();
    await time.pass(SAVE_TIMEOUT_MS);
    await released;
    expect(worker.reported).toEqual(['acquired', 'released']);
    expect(await time.worker().run(request)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('that is not confirmed delays the caller by at most saveTimeoutMs; the lease expires by itself', async () => {
    const worker = time.worker();
    const request = newRequest(OPTIONS);
    const attempt = await worker.run(request);
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
    const worker = time.worker();
    const attempt = await worker.run(
      withOptions(newRequest(OPTIONS), { outcome: { retentionMs: 1_234 } }),
    );
    await attempt.release();
    expect(worker.store.sentOf('release')).toMatchObject([{ command: { tombstoneMs: 1_234 } }]);
  });
});
