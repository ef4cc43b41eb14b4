import { withOtherPayload } from '../../../integration/engine/support/worker.js';
import { labClaim } from '../support/claims.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** A key is used for another payload, while the first one is in flight and after it. */
export const otherBody: Scenario = async (scene) => {
  const verdict = new Verdict();
  const worker = await scene.worker();
  const claim = labClaim();
  const reuse = async (when: string) => {
    const refused = await worker.begin(withOtherPayload(claim));
    verdict.expect(`the reuse ${when}`, refused, { kind: 'reject', reason: 'mismatch' });
  };

  const first = await worker.request(claim, () => reuse('in flight'));
  const record = await scene.admin.get(scene.redisKey(claim));
  await reuse('afterwards');

  verdict.expect('the first one', first.kind, 'success');
  verdict.expect('the record', await scene.admin.get(scene.redisKey(claim)), record);
  const repeated = await worker.request(claim);
  verdict.expect('its repetition', repeated.kind === 'success' && repeated.replayed, true);
  verdict.expect('effects', scene.ledger.effectsOn(claim).length, 1);
  return verdict.on(scene);
};
