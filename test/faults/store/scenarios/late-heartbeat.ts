import { labClaim } from '../support/claims.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** A copy of a heartbeat reaches the server when the operation is long over. */
export const lateHeartbeat: Scenario = async (scene) => {
  const verdict = new Verdict();
  const owner = await scene.worker();
  const retentionMs = 3_600_000;
  const claim = labClaim({ retentionMs });
  const captured = owner.proxy.capture('extend', 'break');
  await owner.request(claim, async () => {
    await scene.pass(claim.options.leaseMs / 3);
    await captured;
  });
  const recordOf = async () => {
    const key = scene.redisKey(claim);
    return [await scene.admin.get(key), await scene.admin.pexpiretime(key)];
  };
  const before = await recordOf();

  const reply = await (await captured).deliver();

  verdict.expect('the copy was told', reply, ['not_in_progress']);
  verdict.expect('the record', await recordOf(), before);
  const repeated = await owner.request(claim);
  verdict.expect('a repetition was answered', repeated.kind, 'success');
  return verdict.on(scene);
};
