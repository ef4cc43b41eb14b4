import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { success } from '../../support/engine/worker.js';
import { RedisNode } from '../../support/redis/redis-node.js';
import { describeWithClock, ServerClock } from '../../support/clocks/server-clock.js';
import { unavailable } from '../../support/stores/faulty-store.js';
import { useServer } from '../../support/servers/use-server.js';
import { labRequest } from '../store/support/requests.js';
import type { LedgerWorker } from '../store/support/ledger-worker.js';
import { FailoverScene } from './support/failover-scene.js';

const HOUR_MS = 3_600_000;

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
      clock.setOffset(-HOUR_MS + request.options.lease.durationMs);
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
