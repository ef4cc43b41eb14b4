import { labClaim } from '../support/claims.js';
import { until } from '../../../integration/redis/support/until.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/**
 * An owner is cut off for longer than its lease, another attempt takes over and ends, and only then the
 * owner's operation ends as well.
 */
export const lateOwner: Scenario = async (scene) => {
  const verdict = new Verdict();
  const owner = await scene.worker({ connection: { socketTimeout: 300 } });
  const successor = await scene.worker();
  const claim = labClaim({ saveTimeoutMs: 10_000 });
  let stored: string | null = null;

  const late = await owner.request(claim, async ({ signal }) => {
    owner.proxy.swallowEverything();
    await scene.pass(claim.options.leaseMs);
    const taken = await successor.request(claim);
    verdict.expect('the successor ran', taken.kind, 'success');
    await until(() => signal.aborted);
    stored = await scene.admin.get(scene.redisKey(claim));
    owner.proxy.heal();
  });

  verdict.expect(
    'the owner answered with the stored outcome',
    'replayed' in late && late.replayed,
    true,
  );
  verdict.expect(
    'the owner was told',
    new Set(owner.told),
    new Set(['acquired', 'lease_lost', 'superseded']),
  );
  verdict.expect('the successor was told', successor.told.at(-2), 'takeover');
  verdict.expect('the record', await scene.admin.get(scene.redisKey(claim)), stored);
  const repeated = await successor.request(claim);
  verdict.expect('a repetition was answered', repeated.kind, 'success');
  return verdict.on(scene);
};
