import { describe, expect, it } from '@jest/globals';
import type { OperationRequest } from '../../support/internals/core.js';
import { requestsOf, ownerOf, useCluster } from './support/use-cluster.js';

const used = useCluster();

// The other kinds of failover: cluster.all.test.ts.
describe('Cluster failover', () => {
  it('planned: attempts in progress continue, and duplicates get their outcomes [P62]', async () => {
    const { servers, scene, alice, bob } = used;
    const [before, running] = requestsOf(2) as [OperationRequest, OperationRequest];
    const paid = await alice.request(before);
    const response = await alice.request(running, async () => {
      await servers.failover(await ownerOf(used, running));
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(await bob.request(before)).toEqual({ ...paid, replayed: true });
    expect(await bob.request(running)).toEqual({ ...response, replayed: true });
    expect(alice.reported).toEqual(['acquired', 'completed', 'acquired', 'completed']);
    expect(scene.objections()).toEqual([]);
  });
});
