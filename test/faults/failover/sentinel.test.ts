import { describe, expect, it } from '@jest/globals';
import type { OperationRequest } from '../../support/internals/core/operation.js';
import { success } from '../../support/engine/worker.js';
import { labRequest } from '../store/support/requests.js';
import { LONG_TIMEOUTS } from './support/long-timeouts.js';
import { loseThePrimary, useSentinel } from './support/use-sentinel.js';

const used = useSentinel();

// The other cases: sentinel.all.test.ts.
describe('Sentinel failover, synced', () => {
  it('after a crash of the primary: attempts in progress continue, and requests meanwhile succeed in the end', async () => {
    const { group, scene, alice, bob } = used;
    const [before, running] = [labRequest(LONG_TIMEOUTS), labRequest(LONG_TIMEOUTS)];
    const paid = await alice.request(before);
    const attempt = await alice.run(running);
    await group.untilSynced();
    const meanwhile: OperationRequest[] = Array.from({ length: 10 }, () =>
      labRequest(LONG_TIMEOUTS),
    );
    const [responses] = await Promise.all([
      Promise.all(meanwhile.map((request) => bob.insist(request))),
      loseThePrimary(used),
    ]);
    expect(responses.every(({ kind }) => kind === 'success')).toBe(true);
    const execution = alice.effect(running, attempt);
    expect(await attempt.complete(success(execution))).toEqual({ kind: 'own' });
    expect(alice.reported).not.toContain('record_lost');
    expect(await bob.request(running)).toEqual({ kind: 'success', execution, replayed: true });
    expect(await bob.request(before)).toEqual({ ...paid, replayed: true });
    expect(scene.objections()).toEqual([]);
  });
});
