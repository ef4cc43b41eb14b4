import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { driveTimers } from '../../support/clocks/driven-time.js';
import { describeWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { success } from '../../support/engine/worker.js';
import type { Begin } from '../../support/internals/core.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { useServer } from '../../support/servers/use-server.js';
import { unavailable } from '../../support/stores/faulty-store.js';
import { until } from '../../support/waiting/until.js';
import type { LedgerWorker } from '../store/support/ledger-worker.js';
import { labRequest } from '../store/support/requests.js';
import { FailoverScene } from './support/failover-scene.js';

const HOUR_MS = 3_600_000;

describe('client clocks', () => {
  let scene: FailoverScene;
  let alice: LedgerWorker;
  let bob: LedgerWorker;

  const redis = useServer(() => RedisNode.start());
  beforeEach(async () => {
    driveTimers(true);
    scene = new FailoverScene();
    alice = await scene.worker({ url: redis.url });
    bob = await scene.worker({ url: redis.url });
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await scene.stop();
    jest.useRealTimers();
  });

  /** Moves the wall clock of this process, with both workers in it; the monotonic one continues. */
  function setWallClock(aheadMs: number): void {
    jest.restoreAllMocks();
    const now = Date.now.bind(Date);
    jest.spyOn(Date, 'now').mockImplementation(() => now() + aheadMs);
  }

  /** The server's clock, in milliseconds. */
  async function serverTime(): Promise<number> {
    const [seconds] = (await redis.call('TIME')) as [string];
    return Number(seconds) * 1_000;
  }

  describe.each([HOUR_MS, -HOUR_MS])("A worker's wall clock that jumps by %d ms", (jumpMs) => {
    it('does not affect an attempt: its lease neither ends nor grows [P59]', async () => {
      const request = labRequest();
      const attempt = await alice.run(request);
      setWallClock(jumpMs);
      const heartbeats = () => alice.store.sentOf('extend').length;
      const third = Math.ceil(request.options.lease.duration / 3);
      jest.advanceTimersByTime(third);
      await until(() => heartbeats() > 0);
      expect(attempt.signal.aborted).toBe(false);
      expect(await bob.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
      setWallClock(-jumpMs);
      const soFar = heartbeats();
      jest.advanceTimersByTime(third);
      await until(() => heartbeats() > soFar);
      const execution = alice.effect(request, attempt);
      expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
      expect(await bob.request(request)).toEqual({ kind: 'success', execution, replayed: true });
      expect(alice.reported).toEqual(['acquired', 'completed']);
      expect(alice.eventsOf('completed')).toMatchObject([{ late: false }]);
      expect(scene.ledger.effectsOn(request)).toHaveLength(1);
    });

    it('does not affect a begin: it sends the same time limit to the server, and is not late [P59]', async () => {
      await alice.request(labRequest());
      setWallClock(jumpMs);
      const request = labRequest();
      expect(await alice.request(request)).toMatchObject({ kind: 'success', replayed: false });
      const begins = alice.store.sentOf('begin').map(({ command }) => command as Begin);
      expect(begins).toHaveLength(2);
      const serverNow = await serverTime();
      const [, { notAfter } = { notAfter: 0 }] = begins;
      expect(Math.abs(notAfter - serverNow)).toBeLessThan(HOUR_MS / 2);
    });
  });
});

describe('server clock', () => {
  describeWithClock("The server's clock", () => {
    let scene: FailoverScene;
    let alice: LedgerWorker;
    let bob: LedgerWorker;

    const clock = useServer(
      () => new ServerClock(),
      (it) => it.remove(),
    );
    const redis = useServer(() => RedisNode.start({ env: clock.env }));
    beforeEach(async () => {
      clock.setOffset(0);
      scene = new FailoverScene();
      alice = await scene.worker({ url: redis.url });
      bob = await scene.worker({ url: redis.url });
    });
    afterEach(() => scene.stop());

    describe('one hour ahead, in one step', () => {
      it('ends a lease in flight: a takeover, reported to the second, and superseded, reported to the first [P58]', async () => {
        const request = labRequest();
        const attempt = await alice.run(request);
        clock.setOffset(HOUR_MS);
        const response = await bob.request(request);
        expect(response).toMatchObject({ kind: 'success', replayed: false });
        const settlement = await attempt.complete(success(alice.effect(request, attempt)));
        expect(settlement).toMatchObject({ kind: 'other', state: 'completed' });
        expect(scene.ledger.effectsOn(request)[0]).toMatchObject({ attempt: 2, isTakeover: true });
        expect(bob.reported).toEqual(['takeover', 'completed']);
        expect(alice.reported).toContain('superseded');
        expect(scene.objections()).toEqual([]);
      });

      it('does not affect an attempt without a takeover', async () => {
        const request = labRequest();
        const attempt = await alice.run(request);
        clock.setOffset(HOUR_MS);
        const execution = alice.effect(request, attempt);
        expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
        expect(alice.eventsOf('completed')).toMatchObject([{ late: true }]);
        expect(await bob.request(request)).toEqual({ kind: 'success', execution, replayed: true });
        expect(scene.objections()).toEqual([]);
      });

      it('makes a begin late, which is resent once, and no more', async () => {
        await alice.request(labRequest());
        clock.setOffset(HOUR_MS);
        expect(await alice.request(labRequest())).toMatchObject({ kind: 'success' });
        expect(await alice.request(labRequest())).toMatchObject({ kind: 'success' });
        const [, first, again, next, ...more] = alice.store.sentOf('begin');
        expect(again?.token).toBe(first?.token);
        expect(next?.token).not.toBe(first?.token);
        expect(more).toEqual([]);
        expect(alice.reported).not.toContain('store_unavailable');
      });

      it('determines when a retention of half an hour ends [P58]', async () => {
        const request = labRequest();
        const attempt = await alice.run(request);
        const retentionMs = HOUR_MS / 2;
        await attempt.complete({ ...success(alice.effect(request, attempt)), retentionMs });
        clock.setOffset(retentionMs - 60_000);
        expect((await bob.begin(request)).kind).toBe('replay');
        clock.setOffset(HOUR_MS);
        expect((await bob.begin(request)).kind).toBe('run');
      });
    });

    describe('one hour back, in one step', () => {
      it('does not affect an attempt in flight and its duplicates [P58]', async () => {
        const request = labRequest();
        const attempt = await alice.run(request);
        clock.setOffset(-HOUR_MS);
        expect(await bob.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
        const execution = alice.effect(request, attempt);
        expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
        expect(await bob.request(request)).toEqual({ kind: 'success', execution, replayed: true });
        expect(alice.reported).toEqual(['acquired', 'completed']);
        expect(scene.objections()).toEqual([]);
      });

      it("does not keep a dead owner's lease alive for longer than its duration [P16, P58]", async () => {
        const request = labRequest();
        alice.store.always(unavailable, 'extend');
        await alice.run(request);
        clock.setOffset(-HOUR_MS);
        expect(await bob.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
        clock.setOffset(-HOUR_MS + request.options.lease.duration);
        expect(await bob.request(request)).toMatchObject({ kind: 'success', replayed: false });
        expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 2, isTakeover: true }]);
        expect(scene.objections()).toEqual([]);
      });

      it('makes no begin late, and fencing tokens of a key keep increasing', async () => {
        const request = labRequest();
        const first = await alice.run(request);
        await first.release();
        clock.setOffset(-HOUR_MS);
        const second = await alice.run(request);
        expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
        expect(alice.store.sentOf('begin')).toHaveLength(2);
      });
    });
  });
});
