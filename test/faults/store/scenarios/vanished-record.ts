import { labClaim } from '../support/claims.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** All data is flushed while an operation runs, and nobody repeats it before its end. */
export const vanishedRecord: Scenario = async (scene) => {
  const verdict = new Verdict();
  const worker = await scene.worker();
  const claim = labClaim();

  const answer = await worker.request(claim, () => scene.admin.flushall());

  verdict.expect('the answer', 'replayed' in answer && answer.replayed, false);
  verdict.expect('the worker was told', worker.told, ['acquired', 'record_lost', 'completed']);
  const repeated = await worker.request(claim);
  verdict.expect('a repetition', repeated.kind === 'success' && repeated.replayed, true);
  verdict.expect('effects', scene.ledger.effectsOn(claim).length, 1);
  return verdict.on(scene);
};
