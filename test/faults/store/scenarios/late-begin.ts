import { labClaim } from '../support/claims.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** A copy of a begin reaches the server when its attempt was released already. */
export const lateBegin: Scenario = async (scene) => {
  const verdict = new Verdict();
  const worker = await scene.worker();
  const claim = labClaim();
  const captured = worker.proxy.capture('begin', 'break');
  const failed = await worker.request(claim, () => Promise.reject(new Error('declined')));
  verdict.expect('the first attempt', failed.kind, 'failure');

  const reply = await (await captured).deliver();

  verdict.expect('the copy was told', reply, ['stale_begin']);
  let attempts: number | undefined;
  const again = await worker.request(claim, ({ number }) => (attempts = number));
  verdict.expect('the next request', again.kind, 'success');
  verdict.expect('its attempt', attempts, 2);
  return verdict.on(scene);
};
