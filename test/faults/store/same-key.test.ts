import { describe, expect, it } from '@jest/globals';
import { failure, inWords, withOtherPayload } from '../../integration/engine/support/worker.js';
import { otherBody } from './scenarios/other-body.js';
import { labClaim } from './support/claims.js';
import { useScene } from './support/use-scene.js';

const used = useScene();

describe('The same key with another payload', () => {
  it('is refused in flight and afterwards, and changes nothing', async () => {
    expect(await otherBody(used.scene)).toEqual([]);
  });

  it('is welcome after a release', async () => {
    const { scene } = used;
    const worker = await scene.worker();
    const claim = labClaim();
    await worker.request(claim, () => Promise.reject(new Error('declined')));
    const other = withOtherPayload(claim);
    expect(await worker.request(other)).toMatchObject({ kind: 'success', replayed: false });
    expect(await worker.begin(claim)).toEqual({ kind: 'reject', reason: 'mismatch' });
  });
});

describe('An operation that failed', () => {
  it('and was released may run again at once, as the next attempt', async () => {
    const worker = await used.scene.worker();
    const claim = labClaim();
    await worker.request(claim, () => Promise.reject(new Error('declined')));
    expect(await worker.run(claim)).toMatchObject({ number: 2, isTakeover: false });
  });

  it('and is kept is replayed as a failure', async () => {
    const worker = await used.scene.worker();
    const claim = labClaim();
    await (await worker.run(claim)).complete(failure('declined'));
    expect(inWords(await worker.begin(claim))).toEqual({
      kind: 'replay',
      state: 'failed',
      outcome: 'declined',
    });
  });
});

describe('Other data under the key', () => {
  it('runs nothing, not even when the route fails open', async () => {
    const { scene } = used;
    const worker = await scene.worker();
    const claim = labClaim({ onStoreUnavailable: 'execute' });
    const others = ['not', 'a', 'record'];
    await scene.admin.rpush(scene.redisKey(claim), ...others);
    const answer = await worker.request(claim);
    expect(answer).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    expect(scene.ledger.effectsOn(claim)).toEqual([]);
    expect(worker.events).toMatchObject([
      { type: 'store_unavailable', error: { code: 'idempotency_store_misconfigured' } },
      { type: 'rejected', reason: 'store_unavailable' },
    ]);
    expect(await scene.admin.lrange(scene.redisKey(claim), 0, -1)).toEqual(others);
  });
});
