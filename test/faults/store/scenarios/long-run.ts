import { labClaim } from '../support/claims.js';
import { recordIn } from '../support/record-in.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** An operation takes longer than the lease that it began with, while heartbeats get through. */
export const longRun: Scenario = async (scene) => {
  const verdict = new Verdict();
  const owner = await scene.worker();
  const other = await scene.worker();
  const claim = labClaim();

  const answer = await owner.request(claim, async () => {
    const { leaseUntil } = await recordIn(scene, claim);
    for (let beat = 0; beat < 4; beat += 1) await scene.passToHeartbeat(owner, claim);
    verdict.expect('the first lease is over', (await scene.serverNow()) > leaseUntil, true);
    const duplicate = await other.request(claim);
    verdict.expect('a duplicate', 'reason' in duplicate && duplicate.reason, 'in_progress');
  });

  verdict.expect('the owner answered', answer.kind, 'success');
  verdict.expect('effects', scene.ledger.effectsOn(claim).length, 1);
  verdict.expect('the owner was told', owner.told, ['acquired', 'completed']);
  return verdict.on(scene);
};
