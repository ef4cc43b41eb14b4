import { expect, it } from '@jest/globals';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { until } from '../../support/waiting/until.js';
import { outOfMemory, vanishedRecord } from './scenarios.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const used = useScene();

describeWithClock('FLUSHALL in flight', () => {
  it('is reported by the holder at its end, and its outcome is restored [P06, P15, P53]', async () => {
    expect(await vanishedRecord(used.scene)).toEqual([]);
  });

  it('lets a duplicate run undetected: the first holder reports it, and responds with the one outcome [P53]', async () => {
    const { scene } = used;
    const holder = await scene.worker();
    const other = await scene.worker();
    const request = labRequest();
    const response = await holder.request(request, async () => {
      await scene.admin.flushall();
      await other.request(request);
    });
    expect(response).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.ledger.effectsOn(request)).toHaveLength(2);
    expect(other.reported).not.toContain('takeover');
    expect(holder.reported).toContain('superseded');
    expect(scene.objections()).toEqual([]);
  });
});

describeWithClock('Redis at its maxmemory', () => {
  it('with noeviction rejects begins, and lets running attempts extend, complete and release [P48]', async () => {
    expect(await outOfMemory(used.scene)).toEqual([]);
  });

  it('with volatile-lru is reported at the start; the holder of an evicted record reports it [P15]', async () => {
    const { scene } = used;
    const { admin } = scene;
    await admin.config('SET', 'maxmemory-policy', 'volatile-lru');
    const worker = await scene.worker();
    const codes = (await worker.store.open()).map(({ code }) => code);
    // The scene's own opening remains.
    await worker.store.close();
    expect(codes).toContain('redis_may_evict');
    const request = labRequest();
    const response = await worker.request(request, async () => {
      await admin.config('SET', 'maxmemory', '1');
      await until(async () => (await admin.exists(scene.redisKey(request))) === 0);
      await admin.config('SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(worker.reported).toEqual(['acquired', 'record_lost', 'completed']);
    expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.objections()).toEqual([]);
  });
});
