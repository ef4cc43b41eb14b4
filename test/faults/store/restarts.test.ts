import { describe, expect, it } from '@jest/globals';
import { until } from '../../support/waiting/until.js';
import { labRequest } from './support/requests.js';
import { load } from './support/load.js';
import { mortalScene } from './support/mortal-redis.js';

// The death of the process does not represent a power failure: fsync is the server's own promise.
describe('Redis is killed and restarted', () => {
  it('with appendfsync always under load: no acknowledged record is lost [P12]', async () => {
    const { scene, die, comeBack } = await mortalScene('durable');
    const workers = [await scene.worker(), await scene.worker()];
    const loaded = load(workers, 150, {
      storeErrors: { commandTimeoutMs: 20_000, saveTimeoutMs: 20_000 },
    });
    for (const share of [30, 80]) {
      await until(() => scene.ledger.effects.length > share);
      await die();
      await comeBack();
    }
    const requests = await loaded;
    const [witness] = [await scene.worker()];
    for (const request of requests) {
      expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
      expect(await witness.request(request)).toMatchObject({ kind: 'success', replayed: true });
    }
    expect(scene.objections()).toEqual([]);
  });

  it('without AOF: the holder of a record reports its loss, and restores the outcome', async () => {
    const { scene, die, comeBack } = await mortalScene('ephemeral');
    const worker = await scene.worker();
    const request = labRequest({ storeErrors: { saveTimeoutMs: 20_000 } });
    const response = await worker.request(request, async () => {
      await die();
      await comeBack();
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(worker.reported).toEqual(['acquired', 'record_lost', 'completed']);
    expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.objections()).toEqual([]);
  });

  it('without AOF: the loss of a completed record is undetectable, and it runs again [P18]', async () => {
    const { scene, die, comeBack } = await mortalScene('ephemeral');
    const worker = await scene.worker();
    const request = labRequest();
    await worker.request(request);
    await die();
    await comeBack();
    expect(await worker.insist(request)).toMatchObject({ kind: 'success', replayed: false });
    expect(scene.ledger.effectsOn(request)).toHaveLength(2);
    expect(worker.reported).not.toContain('record_lost');
  });
});
