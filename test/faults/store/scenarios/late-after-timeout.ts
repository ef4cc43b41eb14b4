import { labClaim } from '../support/claims.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** A begin is on its way for longer than its caller waits, and reaches the server after that. */
export const lateAfterTimeout: Scenario = async (scene) => {
  const verdict = new Verdict();
  const hasty = await scene.worker();
  const other = await scene.worker();
  // From its reply the worker knows the server's clock.
  await hasty.request(labClaim());
  const claim = labClaim({ commandTimeoutMs: 300 });
  const captured = hasty.proxy.capture('begin', 'silence');
  const refused = await hasty.request(claim);
  verdict.expect('the caller', 'reason' in refused && refused.reason, 'store_unavailable');

  const [reply] = await (await captured).deliver();

  verdict.expect('the copy was told', reply, 'late');
  const patient = { ...claim, options: labClaim().options };
  const next = await other.request(patient);
  verdict.expect('the next request', next.kind, 'success');
  return verdict.on(scene);
};
