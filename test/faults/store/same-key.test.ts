import { describe, expect, it } from '@jest/globals';
import { otherBody } from './scenarios.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const used = useScene();

describe('The same key with another payload', () => {
  it('is rejected in flight and afterwards, and changes nothing [P23]', async () => {
    expect(await otherBody(used.scene)).toEqual([]);
  });
});

describe('Other data under the key', () => {
  it('runs nothing, even when the route fails open', async () => {
    const { scene } = used;
    const worker = await scene.worker();
    const request = labRequest({ storeErrors: { whenUnavailable: 'execute' } });
    const others = ['not', 'a', 'record'];
    await scene.admin.rpush(scene.redisKey(request), ...others);
    const response = await worker.request(request);
    expect(response).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    expect(scene.ledger.effectsOn(request)).toEqual([]);
    expect(worker.events).toMatchObject([
      { type: 'store_unavailable', error: { code: 'idempotency_store_misconfigured' } },
      { type: 'rejected', reason: 'store_unavailable' },
    ]);
    expect(await scene.admin.lrange(scene.redisKey(request), 0, -1)).toEqual(others);
  });
});
