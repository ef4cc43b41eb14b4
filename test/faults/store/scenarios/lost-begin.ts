import type { AimedFault } from '../../../support/redis-proxy/aim.js';
import { labClaim } from '../support/claims.js';
import { Verdict, type Scenario } from '../support/verdict.js';

/** A begin, or the reply to it, is lost on its way. */
export const lostBegin =
  (fault: AimedFault): Scenario =>
  async (scene) => {
    const verdict = new Verdict();
    const worker = await scene.worker({ connection: { socketTimeout: 300 } });
    const claim = labClaim();
    const aim = worker.proxy.aim('begin', fault);
    let attempt: { number: number; isTakeover: boolean } | undefined;

    const answer = await worker.request(claim, ({ number, isTakeover }) => {
      attempt = { number, isTakeover };
    });

    verdict.expect('lost messages', aim.hits, 1);
    verdict.expect('the request was answered', answer.kind, 'success');
    verdict.expect('the attempt', attempt, { number: 1, isTakeover: false });
    verdict.expect('the worker was told', worker.told, ['acquired', 'completed']);
    const repeated = await worker.request(claim);
    verdict.expect('a repetition', repeated.kind === 'success' && repeated.replayed, true);
    return verdict.on(scene);
  };
