import { labClaim } from '../support/claims.js';
import { recordIn } from '../support/record-in.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** Redis reaches `maxmemory` while one operation runs and another one is about to fail. */
export const outOfMemory: Scenario = async (scene) => {
  const verdict = new Verdict();
  const worker = await scene.worker();
  const failingWorker = await scene.worker();
  const options = { commandTimeoutMs: 2_000, saveTimeoutMs: 1_000 };
  const [running, failing, fresh] = [labClaim(options), labClaim(options), labClaim(options)];

  const failed = failingWorker.request(failing, async () => {
    const ran = await worker.request(running, async () => {
      const { leaseUntil } = await recordIn(scene, running);
      const beat = worker.proxy.aim('extend', { replyDelayMs: 0 });
      await scene.admin.config('SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction');
      const refused = await worker.request(fresh);
      verdict.expect('a begin', 'reason' in refused && refused.reason, 'store_unavailable');
      await scene.pass(running.options.leaseMs / 3);
      await beat.hit;
      const renewed = await recordIn(scene, running);
      verdict.expect('the lease was renewed', renewed.leaseUntil > leaseUntil, true);
    });
    verdict.expect('the one that ran', ran.kind, 'success');
    throw new Error('declined');
  });
  verdict.expect('the one that failed', (await failed).kind, 'failure');
  const replayed = await worker.request(running);
  verdict.expect('a duplicate', replayed.kind, 'success');
  await scene.admin.config('SET', 'maxmemory', '0');

  const refusal = ['store_unavailable', 'rejected'];
  verdict.expect('one worker was told', worker.told, [
    'acquired',
    ...refusal,
    'completed',
    'replayed',
  ]);
  verdict.expect('the other one was told', failingWorker.told, ['acquired', 'released']);
  const again = await worker.request(failing);
  verdict.expect('the released key, with memory again', again.kind, 'success');
  return verdict.on(scene);
};
