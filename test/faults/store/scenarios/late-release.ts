import { labClaim } from '../support/claims.js';
import { until } from '../../../integration/redis/support/until.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** An attempt that was taken over lets go when its successor has its outcome stored already. */
export const lateRelease: Scenario = async (scene) => {
  const verdict = new Verdict();
  const owner = await scene.worker({ connection: { socketTimeout: 300 } });
  const successor = await scene.worker();
  const claim = labClaim({ saveTimeoutMs: 10_000 });

  const failed = await owner.request(claim, async ({ signal }) => {
    owner.proxy.swallowEverything();
    await scene.pass(claim.options.leaseMs);
    const taken = await successor.request(claim);
    verdict.expect('the successor ran', taken.kind, 'success');
    await until(() => signal.aborted);
    owner.proxy.heal();
    throw new Error('declined');
  });

  verdict.expect('the owner', failed.kind, 'failure');
  verdict.expect(
    'the owner was told',
    new Set(owner.told),
    new Set(['acquired', 'lease_lost', 'release_failed']),
  );
  const repeated = await successor.request(claim);
  verdict.expect('a repetition', repeated.kind === 'success' && repeated.replayed, true);
  verdict.expect('effects', scene.ledger.effectsOn(claim).length, 1);
  return verdict.on(scene);
};
